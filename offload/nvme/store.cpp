#include "offload/nvme/store.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>

#include "offload/nvme/nvme_stream.hpp"
#include "runtime/files/io_error.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata {
namespace {

void check(const NvmeOptions& o) {
  const auto refuse = [](const std::string& why) { throw ConfigError("NVMe tier: " + why); };
  if (o.directories.empty()) refuse("no directory is given");
  for (size_t i = 0; i < o.directories.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (o.directories[i] == o.directories[j]) refuse(o.directories[i] + " is given twice");
    }
  }
  if (o.unit_bytes == 0 || o.units == 0) refuse("there is nothing to keep in it");
  if (o.depth == 0 || o.depth > 1024) refuse("the depth must be from 1 to 1024");
  if (o.request_bytes == 0) refuse("a transfer must have at least one byte");
  if (o.unit_bytes > PTRDIFF_MAX / o.units) refuse("it is larger than an address can name");
  if (!(o.timeout_seconds > 0)) refuse("the time a transfer may take must be positive");
}

}  // namespace

NvmeStore::NvmeStore(const NvmeOptions& options, Files& files, WrapSink wrap, void* wrap_context)
    : options_(options), limit_(options.bytes_per_second) {
  check(options_);
  if (options_.engine == "auto") {
    const std::string why = why_no_uring();
    engine_ = why.empty() ? "io_uring" : "threads";
    if (!why.empty()) engine_reason_ = "io_uring does not work here: " + why;
  } else {
    engine_ = options_.engine;
  }
  open_files(files);
  pieces_ = static_cast<uint32_t>((options_.unit_bytes + options_.request_bytes - 1) /
                                  options_.request_bytes);
  if (options_.checksums) checksums_.resize(uint64_t{options_.units} * pieces_);
  void* const base = ::mmap(nullptr, options_.units * options_.unit_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw OutOfMemory("no address space for the NVMe tier");
  base_ = static_cast<std::byte*>(base);
  try {
    make_streams(wrap, wrap_context);
    watchdog_ = std::thread([this] { watch(); });
    write_through();
  } catch (...) {
    end();
    throw;
  }
}

NvmeStore::~NvmeStore() { end(); }

void NvmeStore::make_streams(WrapSink wrap, void* wrap_context) {
  const auto make = [&] {
    using Direction = NvmeStream::Direction;
    reader_ = std::make_unique<NvmeStream>(*this, Direction::read, wrap, wrap_context);
    writer_ = std::make_unique<NvmeStream>(*this, Direction::write, wrap, wrap_context);
  };
  if (options_.engine != "auto") return make();
  try {
    make();
  } catch (const IoError& e) {
    if (engine_ == kIoEngines[1]) throw;
    reader_.reset();
    engine_ = kIoEngines[1];
    engine_reason_ = e.what();
    make();
  }
}

void NvmeStore::end() noexcept {
  // Each may wait on a fence of the other; the watchdog sees to it that both end.
  if (reader_) reader_->stop();
  if (writer_) writer_->stop();
  if (watchdog_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    ending_.notify_all();
    watchdog_.join();
  }
  const auto limit = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(std::min(options_.timeout_seconds, 60.0));
  const auto busy = [&] { return (reader_ && !reader_->idle()) || (writer_ && !writer_->idle()); };
  while (busy() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (busy()) {
    // The drive never answered: whoever waited was told. Its transfers may still come back, so what
    // they touch stays until the process ends.
    static_cast<void>(reader_.release());
    static_cast<void>(writer_.release());
    static_cast<void>(new (std::nothrow) std::vector<ScratchFile>(std::move(files_)));
    return;
  }
  reader_.reset();
  writer_.reset();
  if (base_ != nullptr) ::munmap(base_, options_.units * options_.unit_bytes);
}

void NvmeStore::open_files(Files& files) {
  const size_t n = options_.directories.size();
  for (size_t i = 0; i < n; ++i) {
    const std::string& directory = options_.directories[i];
    ScratchFile f = files.open_scratch(directory);
    if (options_.unit_bytes % f.block != 0 || options_.request_bytes % f.block != 0) {
      throw ConfigError(fmt::format(
          "NVMe tier: {} wants transfers in multiples of {} bytes, and a unit has {}, a transfer "
          "at most {}; choose another --chunk-size",
          directory, f.block, options_.unit_bytes, options_.request_bytes));
    }
    const uint64_t mine = (options_.units + n - 1 - i) / n * options_.unit_bytes;
    int error = mine == 0 ? 0 : -f.file->reserve(mine);
    // Where the file system cannot reserve, there must be room, and writing it through takes it.
    if (error == EOPNOTSUPP) error = files.free_bytes(directory) < mine ? ENOSPC : 0;
    if (error != 0) {
      throw IoError(fmt::format("{} ({} bytes needed, {} free)",
                                io_error("reserve space in", f.file->name(), error).what(), mine,
                                files.free_bytes(directory)));
    }
    direct_ = direct_ && f.direct;
    files_.push_back(std::move(f));
  }
}

void NvmeStore::write_through() {
  const Arena zeros = allocate_pages(options_.unit_bytes, "first-writing");
  for (uint32_t u = 0; u < options_.units && !writer_->failed(); ++u) {
    writer_->copy(base_ + u * options_.unit_bytes, zeros.base(), options_.unit_bytes);
    // Short of the stream's own queues.
    if (u % 256 == 255) writer_->record_always().wait_done();
  }
  writer_->record_always().wait_done();
  writer_->rethrow();
  for (const ScratchFile& f : files_) {
    const int error = f.direct ? 0 : -f.file->sync();
    if (error != 0) throw io_error("write through", f.file->name(), error);
  }
}

NvmeStore::Place NvmeStore::place(uint32_t unit, uint32_t piece) const noexcept {
  const auto n = static_cast<uint32_t>(files_.size());
  return {unit % n,
          unit / n * uint64_t{options_.unit_bytes} + uint64_t{piece} * options_.request_bytes};
}

void NvmeStore::watch() {
  const auto period = std::chrono::duration<double>(std::min(options_.timeout_seconds / 4, 1.0));
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, period, [this] { return ends_; })) {
    reader_->check_age();
    writer_->check_age();
  }
}

AdoptedNvme NvmeStore::adopted() noexcept {
  return {reader_.get(), writer_.get(), base_, options_.units * options_.unit_bytes, this};
}

void NvmeStore::add_memory(std::span<std::byte> memory) {
  if (options_.buffer_bytes == 0) return;
  for (NvmeStream* const s : {reader_.get(), writer_.get()}) {
    const std::string why = s->add_memory(memory);
    if (memory_reason_.empty()) memory_reason_ = why;
  }
}

void NvmeStore::remove_memory(std::span<std::byte> memory) noexcept {
  for (NvmeStream* const s : {reader_.get(), writer_.get()}) {
    if (s != nullptr) s->remove_memory(memory);
  }
}

std::string NvmeStore::file_path(size_t directory) const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), files_[directory].file->descriptor());
}

void NvmeStore::set_owners(OwnerFn owner) {
  const std::lock_guard lock(owner_mutex_);
  owner_ = std::move(owner);
}

NvmeError NvmeStore::error(const std::string& message, uint32_t unit) const {
  const std::lock_guard lock(owner_mutex_);
  return {owner_ ? fmt::format("{} (unit {}: {})", message, unit, owner_(unit)) : message, unit};
}

uint64_t NvmeStore::cached_bytes() const {
  constexpr uint64_t kPage = 4096, kWindow = uint64_t{1} << 30;
  uint64_t bytes = 0;
  std::vector<unsigned char> pages(kWindow / kPage);
  for (const ScratchFile& f : files_) {
    const int64_t size = f.file->size();
    for (int64_t at = 0; at < size; at += kWindow) {
      const auto n = static_cast<size_t>(std::min<int64_t>(kWindow, size - at));
      void* const map = ::mmap(nullptr, n, PROT_READ, MAP_SHARED, f.file->descriptor(), at);
      if (map == MAP_FAILED) throw io_error("map", f.file->name(), errno);
      const int result = ::mincore(map, n, pages.data());
      const int error = errno;
      ::munmap(map, n);
      if (result < 0) throw io_error("ask for cached pages of", f.file->name(), error);
      for (size_t p = 0; p < (n + kPage - 1) / kPage; ++p) bytes += (pages[p] & 1) * kPage;
    }
  }
  return bytes;
}

uint64_t NvmeStore::bytes_read() const noexcept { return reader_->bytes(); }
uint64_t NvmeStore::bytes_written() const noexcept { return writer_->bytes(); }

}  // namespace strata
