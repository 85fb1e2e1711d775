// The NVMe tier: units of one size in unnamed files, one a directory.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "offload/nvme/io_queue.hpp"
#include "offload/nvme/rate_limit.hpp"
#include "runtime/backend.hpp"
#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata {

struct NvmeOptions {
  /// One file each; units go round them in turn.
  std::vector<std::string> directories;
  size_t unit_bytes = 0;
  uint32_t units = 0;
  /// `io_uring`, `threads`, or `auto`: io_uring where it works.
  std::string engine = "auto";
  /// Transfers in flight, for each direction.
  uint32_t depth = 32;
  /// Bytes of a transfer, at most.
  uint32_t request_bytes = 1 << 20;
  /// Keep a hash of each transfer written, and compare it on read.
  bool checksums = true;
  /// A transfer that takes longer is an error.
  double timeout_seconds = 60;
  /// Memory that transfers use is registered with io_uring in buffers of at most so many bytes, of
  /// which the kernel takes 1 GiB; 0: it is not registered.
  size_t buffer_bytes = size_t{1} << 30;
  /// Not 0: transfers start no faster, both directions together, as if the drive were slower.
  double bytes_per_second = 0;
  /// Not 0: the workers sleep at random points.
  uint64_t delay_seed = 0;
};

/// A transfer that failed for good.
class NvmeError : public IoError {
 public:
  NvmeError(const std::string& message, uint32_t unit) : IoError(message), unit_(unit) {}
  uint32_t unit() const noexcept { return unit_; }

 private:
  uint32_t unit_;
};

/// Wraps the sink of a queue, to put faults between the two. For tests.
using WrapSink = std::unique_ptr<IoSink> (*)(IoSink&, void* context);

class NvmeStream;

/// Makes the files, reserves their space and writes zeros through all of it once, so that later
/// writes neither allocate nor fail for want of space. Nothing is left behind however the process
/// ends. Units have addresses, in memory that is never mapped: a stream's copy between such an
/// address and memory is a transfer. Both streams start transfers in order, complete them in any
/// order, and complete fences in order.
class NvmeStore final : private TransferMemory {
 public:
  /// Throws ConfigError for options that make no sense, IoError naming directory and reason.
  explicit NvmeStore(const NvmeOptions&, Files& = real_files(), WrapSink = nullptr,
                     void* wrap_context = nullptr);
  ~NvmeStore() override;
  NvmeStore(const NvmeStore&) = delete;
  NvmeStore& operator=(const NvmeStore&) = delete;

  /// Copies whole units from the store to memory, and from memory to the store.
  NvmeStream& reader() noexcept { return *reader_; }
  NvmeStream& writer() noexcept { return *writer_; }
  /// Where unit 0 begins; unit u follows at u * unit_bytes. Never dereferenced.
  std::byte* base() const noexcept { return base_; }
  /// Registers memory, of which transfers inside it take less time of the processor.
  void add_memory(std::span<std::byte>) override;
  void remove_memory(std::span<std::byte>) noexcept override;
  /// Why some memory is not registered; empty: all that was added is, or need not be.
  const std::string& memory_reason() const noexcept { return memory_reason_; }
  /// Both streams and all units, for a backend.
  AdoptedNvme adopted() noexcept;
  /// Says what lives in a unit, for messages.
  using OwnerFn = std::function<std::string(uint32_t unit)>;
  void set_owners(OwnerFn);
  /// The engine that was chosen, and why if not the first.
  const std::string& engine() const noexcept { return engine_; }
  const std::string& engine_reason() const noexcept { return engine_reason_; }
  /// False: some directory's file system has no direct transfers, so the page cache is used.
  bool direct() const noexcept { return direct_; }
  /// A name under which other processes can open a directory's file while this one runs.
  std::string file_path(size_t directory) const;
  /// Bytes of the files that the page cache holds now: 0, but for what is not direct.
  uint64_t cached_bytes() const;
  uint64_t bytes_read() const noexcept;
  uint64_t bytes_written() const noexcept;
  const NvmeOptions& options() const noexcept { return options_; }

 private:
  friend class NvmeStream;
  struct Place {
    uint32_t file;
    uint64_t offset;
  };

  void end() noexcept;
  void make_streams(WrapSink, void* wrap_context);
  void open_files(Files&);
  void write_through();
  void watch();
  NvmeError error(const std::string& message, uint32_t unit) const;
  uint32_t pieces() const noexcept { return pieces_; }
  Place place(uint32_t unit, uint32_t piece) const noexcept;
  /// Of a piece of a unit.
  uint64_t& checksum(uint32_t unit, uint32_t piece) noexcept {
    return checksums_[uint64_t{unit} * pieces_ + piece];
  }

  NvmeOptions options_;
  std::string engine_, engine_reason_, memory_reason_;
  bool direct_ = true;
  uint32_t pieces_ = 0;
  std::vector<ScratchFile> files_;
  std::vector<uint64_t> checksums_;
  std::byte* base_ = nullptr;
  RateLimit limit_;
  std::unique_ptr<NvmeStream> reader_, writer_;

  mutable std::mutex owner_mutex_;
  OwnerFn owner_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread watchdog_;
};

}  // namespace strata
