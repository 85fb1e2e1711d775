#include "offload/engine_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/elementwise.hpp"

namespace strata {

void zero_bytes(HostContext& host, void* data, uint64_t bytes) {
  constexpr uint64_t kBlock = 1 << 20;
  host.pool.parallel_for(static_cast<uint32_t>((bytes + kBlock - 1) / kBlock), [&](uint32_t i) {
    std::memset(static_cast<std::byte*>(data) + i * kBlock, 0,
                std::min(kBlock, bytes - i * kBlock));
  });
}

void store_gradient(HostContext& host, void* acc, DType acc_type, const void* x, DType x_type,
                    uint64_t n) {
  kernels::store_cast(host.pool, acc, acc_type, x, x_type, n);
}

void add_gradient(HostContext& host, void* acc, DType acc_type, const void* x, DType x_type,
                  uint64_t n) {
  kernels::accumulate(host.pool, acc, acc_type, x, x_type, n);
}

void sum_chunk_squares(HostContext& host, SquareSumJob job) {
  double* nodes = job.nodes;
  for (uint32_t i = 0; i < job.slice_count; ++i) {
    const ChunkSlice& s = job.slices[i];
    const uint64_t total = job.params[s.param].elems();
    kernels::square_sum(host.pool,
                        job.planes.at(Plane::grad, s.chunk_offset, size_of(job.grad_type)),
                        job.grad_type, s.param_offset, s.elems, total, nodes);
    nodes += kernels::square_sum_node_count(s.param_offset, s.elems, total);
  }
}

void run_finish_step(HostContext&, NormInput in) { finish_step(in); }
void run_finish_chunk(HostContext&, ChunkScaleInput in) { finish_chunk(in); }

void store_scale(HostContext&, kernels::StepScale* to, kernels::StepScale scale) { *to = scale; }

void take_least(HostContext&, std::atomic<uint32_t>* to, std::atomic<uint32_t>* from, bool keep) {
  const uint32_t found = from->exchange(UINT32_MAX, std::memory_order_relaxed);
  uint32_t least = to->load(std::memory_order_relaxed);
  while (keep && found < least && !to->compare_exchange_weak(least, found)) {
  }
}

std::pair<float, float> inverse_bias(const OptimizerConfig& c, uint64_t step) {
  if (c.kind != OptimizerKind::adamw) return {1.0f, 1.0f};
  return {static_cast<float>(1 / kernels::bias_correction(c.beta1, step + 1)),
          static_cast<float>(1 / kernels::bias_correction(c.beta2, step + 1))};
}

}  // namespace strata
