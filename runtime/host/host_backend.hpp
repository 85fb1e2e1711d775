// The CPU backend: product code for machines without a GPU, and what every test runs on.
#pragma once
#include <array>
#include <memory>

#include "runtime/backend.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {

/// How fast a copy stream may look; zero means as fast as memory.
struct LinkRate {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

struct HostBackendOptions {
  /// Threads of the one pool, the calling stream's worker among them.
  uint32_t threads = 1;
  LinkRate h2d, d2h;
  /// Not 0: every worker sleeps at random points, drawn from this seed, to shake out races.
  uint64_t delay_seed = 0;
  uint32_t max_delay_microseconds = 200;
};

class HostStream;

/// Streams are FIFO workers, one thread each; fences follow CUDA's rules; memory is anonymous and
/// asks for huge pages.
class HostBackend final : public Backend {
 public:
  explicit HostBackend(const HostBackendOptions&);
  ~HostBackend() override;

  Stream& stream(Resource) override;
  Arena allocate(Tier, size_t bytes) override;
  bool executes() const noexcept override { return true; }
  void wait(const Fence&) override;
  void drain() override;
  double waited(Resource) const override;
  double now() const override;

  ThreadPool& pool() noexcept { return *pool_; }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::array<std::unique_ptr<HostStream>, kResources> streams_;
};

/// `bytes` of zeroed anonymous memory, aligned to 2 MiB and advised to use huge pages. Throws
/// OutOfMemory naming `what`.
Arena allocate_pages(size_t bytes, const char* what);

}  // namespace strata
