// One stream of the host backend: copies and kernels on the thread pool.
#pragma once
#include <memory>

#include "runtime/host/host_backend.hpp"
#include "runtime/host/worker_stream.hpp"

namespace strata {

class HostStream final : public WorkerStream {
 public:
  HostStream(ThreadPool&, LinkRate, uint64_t delay_seed, uint32_t max_delay_microseconds,
             uint32_t first_record = 0);
  ~HostStream() override;

 private:
  void run_copy(const Copy&) override;
  void run_launch(const Launch&) override;

  ThreadPool& turns_;
  /// Under ThreadSanitizer only, see `context_`.
  std::unique_ptr<ThreadPool> own_pool_;
  /// What kernels get. A pool's threads carry what they did for one stream into their work for the
  /// next, and from there to its worker: an order that nothing promises, which would hide a missing
  /// fence wait from ThreadSanitizer. It therefore sees a pool per stream.
  HostContext context_;
  LinkRate rate_;
};

}  // namespace strata
