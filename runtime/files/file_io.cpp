#include "runtime/files/file_io.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "runtime/files/io_error.hpp"

namespace strata {
namespace {

/// Times a transfer that says "try again" is tried in a row, a millisecond apart.
constexpr int kMostRetries = 100;

std::string of(const File& file, std::string_view owner) {
  return owner.empty() ? file.name() : fmt::format("{} ({})", file.name(), owner);
}

/// Calls `transfer(done)`, which moves bytes from `done` on, until all are moved.
template <class Transfer>
void move_all(const char* verb, File& file, size_t bytes, uint64_t offset, std::string_view owner,
              Transfer transfer) {
  int retries = 0;
  for (size_t done = 0; done < bytes;) {
    const int64_t n = transfer(done);
    if (n > 0) {
      done += static_cast<size_t>(n);
      retries = 0;
      continue;
    }
    const int error = static_cast<int>(-n);
    if (!may_retry(error) || ++retries > kMostRetries) {
      throw io_error(verb, bytes - done, offset + done, of(file, owner), error);
    }
    if (error != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void read_all(File& file, std::span<std::byte> to, uint64_t offset, std::string_view owner) {
  move_all("read", file, to.size(), offset, owner, [&](size_t done) {
    return file.read(to.data() + done, to.size() - done, offset + done);
  });
}

void write_all(File& file, std::span<const std::byte> from, uint64_t offset,
               std::string_view owner) {
  move_all("write", file, from.size(), offset, owner, [&](size_t done) {
    return file.write(from.data() + done, from.size() - done, offset + done);
  });
}

uint64_t bytes_of(File& file) {
  const int64_t size = file.size();
  if (size < 0) throw io_error("look at", file.name(), static_cast<int>(-size));
  return static_cast<uint64_t>(size);
}

void sync_all(File& file) {
  int error = file.sync();
  for (int i = 0; error != 0 && may_retry(-error) && i < kMostRetries; ++i) error = file.sync();
  if (error != 0) throw io_error("sync", file.name(), -error);
}

std::string read_text(Files& files, const std::string& path, uint64_t most) {
  const auto file = files.open(path);
  const uint64_t size = bytes_of(*file);
  if (size > most) {
    throw IoError(fmt::format("cannot read {}: it has {} bytes where at most {} are sensible", path,
                              size, most));
  }
  std::string text(size, '\0');
  read_all(*file, std::as_writable_bytes(std::span(text)), 0, {});
  return text;
}

void replace_text(Files& files, const std::string& path, std::string_view text) {
  const std::string fresh = path + ".new";
  files.remove(fresh);
  try {
    const auto file = files.create(fresh);
    write_all(*file, std::as_bytes(std::span(text)), 0, {});
    sync_all(*file);
  } catch (...) {
    try {
      files.remove(fresh);
    } catch (const IoError&) {  // the first error says more
    }
    throw;
  }
  files.rename(fresh, path);
  const size_t slash = path.rfind('/');
  files.sync_folder(slash == std::string::npos ? "." : path.substr(0, slash + 1));
}

}  // namespace strata
