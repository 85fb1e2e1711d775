// The CPU backend: product code for machines without a GPU, and what every test runs on.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {

/// How fast a copy stream may look; zero means as fast as memory.
struct LinkRate {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

class WorkerStream;

/// Wants to know the memory that is copied from and to.
class TransferMemory {
 public:
  virtual ~TransferMemory() = default;
  virtual void add_memory(std::span<std::byte>) = 0;
  /// No copy may be under way.
  virtual void remove_memory(std::span<std::byte>) noexcept = 0;

 protected:
  TransferMemory() = default;
};

/// An NVMe tier that someone else keeps, and that outlives the backend's work.
struct AdoptedNvme {
  WorkerStream* reader = nullptr;
  WorkerStream* writer = nullptr;
  /// Addresses of the tier, which copies of the two streams take for what they stand for.
  std::byte* base = nullptr;
  size_t bytes = 0;
  /// Not null: is told of the other tiers' arenas, and outlives them.
  TransferMemory* memory = nullptr;
};

struct HostBackendOptions {
  /// Threads of the one pool, the calling stream's worker among them.
  uint32_t threads = 1;
  LinkRate h2d, d2h;
  /// Not 0: every worker sleeps at random points, drawn from this seed, to shake out races.
  uint64_t delay_seed = 0;
  uint32_t max_delay_microseconds = 200;
  AdoptedNvme nvme{};
};

/// Streams are FIFO workers, one thread each; fences follow CUDA's rules; memory is anonymous and
/// asks for huge pages.
class HostBackend final : public Backend {
 public:
  explicit HostBackend(const HostBackendOptions&);
  ~HostBackend() override;

  /// Throws StateError for the NVMe streams without an NVMe tier.
  Stream& stream(Resource) override;
  /// The NVMe tier is handed out once, as a whole.
  Arena allocate(Tier, size_t bytes) override;
  bool executes() const noexcept override { return true; }
  void wait(const Fence&) override;
  void drain() override;
  StreamTimes stream_times(Resource) const override;
  void observe(StreamObserver*) override;
  double now() const override;

  ThreadPool& pool() noexcept { return *pool_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::vector<std::unique_ptr<WorkerStream>> own_;
  std::array<WorkerStream*, kResources> streams_{};  // null: there is no such tier
  AdoptedNvme nvme_;
};

/// `bytes` of zeroed anonymous memory, aligned to 2 MiB and advised to use huge pages. Throws
/// OutOfMemory naming `what`.
Arena allocate_pages(size_t bytes, const char* what);

}  // namespace strata
