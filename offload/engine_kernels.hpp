// Host kernels that the engine itself launches, between the ops of a model.
#pragma once
#include <utility>

#include "offload/step_record.hpp"
#include "offload/updater.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {

struct SquareSumJob {
  PlaneAddresses planes;
  const ChunkSlice* slices;
  uint32_t slice_count;
  DType grad_type;
  const ParamSpec* params;
  double* nodes;  // of all slices, one after another
};

void zero_bytes(HostContext&, void* data, uint64_t bytes);
void store_gradient(HostContext&, void* acc, DType acc_type, const void* x, DType x_type,
                    uint64_t n);
void add_gradient(HostContext&, void* acc, DType acc_type, const void* x, DType x_type, uint64_t n);
void sum_chunk_squares(HostContext&, SquareSumJob);
void run_finish_step(HostContext&, NormInput);
void run_finish_chunk(HostContext&, ChunkScaleInput);
void store_scale(HostContext&, kernels::StepScale* to, kernels::StepScale);
/// Resets `from`; if `keep`, `to` becomes the least of both.
void take_least(HostContext&, std::atomic<uint32_t>* to, std::atomic<uint32_t>* from, bool keep);

/// 1 / (1 - beta^t) for both betas, t counting from 1; ones for SGD.
std::pair<float, float> inverse_bias(const OptimizerConfig&, uint64_t step);

}  // namespace strata
