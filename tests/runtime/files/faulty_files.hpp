// A file system in which chosen calls go wrong, for whatever reads and writes files.
#pragma once
#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {

enum class FileCall : uint8_t { read, write, reserve, sync, open, create, rename, sync_folder };

/// One thing that goes wrong.
struct FileFault {
  enum class Kind : uint8_t {
    error,     // fails with `error`, and moves nothing
    cut,       // moves half of what was asked, at least one byte
    flip_bit,  // moves everything, and one bit of it wrong
    call       // runs `action`, then succeeds: for delays, and to end the process there
  };
  FileCall call = FileCall::read;
  Kind kind = Kind::error;
  int error = EIO;
  /// Of the calls on files with this in their path, the n-th, from 1; every one from then on when
  /// `goes_on`.
  std::string path;
  uint64_t nth = 1;
  bool goes_on = false;
  std::function<void()> action;
  uint64_t seen = 0, fired = 0;
};

/// `below` with the faults put in. Reads and writes may come from any thread.
class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(Files& below = real_files()) : below_(below) {}

  std::vector<FileFault> faults;
  /// Calls of every kind so far, on any path.
  std::array<uint64_t, 8> calls{};
  uint64_t fired() const {
    uint64_t n = 0;
    for (const FileFault& f : faults) n += f.fired;
    return n;
  }

  /// The fault of this call, if it is to go wrong.
  FileFault* strike(FileCall call, const std::string& path) {
    FileFault* struck = nullptr;
    {
      const std::lock_guard lock(mutex_);
      ++calls[static_cast<size_t>(call)];
      for (FileFault& f : faults) {
        if (f.call != call || path.find(f.path) == std::string::npos) continue;
        if (++f.seen != f.nth && !(f.goes_on && f.seen > f.nth)) continue;
        ++f.fired;
        struck = &f;
        break;
      }
    }
    if (struck != nullptr && struck->action) struck->action();
    return struck != nullptr && struck->kind != FileFault::Kind::call ? struck : nullptr;
  }

  ScratchFile open_scratch(const std::string& directory) override {
    ScratchFile s = below_.open_scratch(directory);
    s.file = wrap(std::move(s.file));
    return s;
  }
  uint64_t free_bytes(const std::string& path) override {
    return free ? *free : below_.free_bytes(path);
  }
  std::unique_ptr<File> open(const std::string& path) override {
    fail("open", FileCall::open, path);
    return wrap(below_.open(path));
  }
  std::unique_ptr<File> create(const std::string& path) override {
    fail("create", FileCall::create, path);
    return wrap(below_.create(path));
  }
  void make_folder(const std::string& path) override { below_.make_folder(path); }
  void rename(const std::string& from, const std::string& to) override {
    fail("rename", FileCall::rename, to);
    below_.rename(from, to);
  }
  void sync_folder(const std::string& path) override {
    fail("sync the folder", FileCall::sync_folder, path);
    below_.sync_folder(path);
  }
  void remove(const std::string& path) override { below_.remove(path); }
  std::vector<std::string> list(const std::string& path) override { return below_.list(path); }

  /// What `free_bytes` says instead of the truth.
  std::optional<uint64_t> free;

 private:
  class FaultyFile final : public File {
   public:
    FaultyFile(FaultyFiles& files, std::unique_ptr<File> below)
        : File(below->name()), files_(files), below_(std::move(below)) {}

    int64_t read(std::byte* to, size_t bytes, uint64_t offset) override {
      FileFault* const f = files_.strike(FileCall::read, name());
      if (f != nullptr && f->kind == FileFault::Kind::error) return -f->error;
      if (f != nullptr && f->kind == FileFault::Kind::cut) bytes = (bytes + 1) / 2;
      const int64_t n = below_->read(to, bytes, offset);
      if (f != nullptr && f->kind == FileFault::Kind::flip_bit && n > 0) {
        to[n / 2] ^= std::byte{4};
      }
      return n;
    }
    int64_t write(const std::byte* from, size_t bytes, uint64_t offset) override {
      FileFault* const f = files_.strike(FileCall::write, name());
      if (f != nullptr && f->kind == FileFault::Kind::error) return -f->error;
      if (f != nullptr && f->kind == FileFault::Kind::cut) bytes = (bytes + 1) / 2;
      if (f != nullptr && f->kind == FileFault::Kind::flip_bit) {
        std::vector<std::byte> wrong(from, from + bytes);
        wrong[bytes / 2] ^= std::byte{4};
        return below_->write(wrong.data(), bytes, offset);
      }
      return below_->write(from, bytes, offset);
    }
    int reserve(uint64_t bytes) override {
      FileFault* const f = files_.strike(FileCall::reserve, name());
      return f != nullptr ? -f->error : below_->reserve(bytes);
    }
    int sync() override {
      FileFault* const f = files_.strike(FileCall::sync, name());
      return f != nullptr ? -f->error : below_->sync();
    }
    int64_t size() override { return below_->size(); }
    int descriptor() const noexcept override { return below_->descriptor(); }

   private:
    FaultyFiles& files_;
    std::unique_ptr<File> below_;
  };

  std::unique_ptr<File> wrap(std::unique_ptr<File> file) {
    return std::make_unique<FaultyFile>(*this, std::move(file));
  }
  void fail(const char* verb, FileCall call, const std::string& path) {
    if (FileFault* const f = strike(call, path)) throw io_error(verb, path, f->error);
  }

  Files& below_;
  std::mutex mutex_;
};

}  // namespace strata
