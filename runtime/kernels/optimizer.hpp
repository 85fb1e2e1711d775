// Optimizer kernels of the host backend: cast, clip, join, update, split in one pass over memory.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::kernels {

/// Step-wide values, known only after the last gradient: one record in the arena that the norm
/// kernel writes and updates read when they run.
struct StepScale {
  float clip;       ///< multiplies every gradient
  uint32_t apply;   ///< 0: the update leaves every byte as it is
  float inv_bias1;  ///< 1 / (1 - beta1^t), t counting from 1; AdamW only
  float inv_bias2;  ///< 1 / (1 - beta2^t)
};

/// In double, so that 1 - beta is rounded once, as PyTorch does: 1 - 0.999f is off by 5e-5.
struct AdamWParams {
  double lr, beta1, beta2, eps;
};

/// A run of elements of congruent planes.
struct AdamWSlice {
  void* weight;
  uint16_t* remainder;  ///< lower half of the fp32 master; null for fp32 weights
  const void* grad;
  float* m;
  float* v;
  uint64_t n;
  float weight_decay;  ///< decoupled; 0 for what is not decayed
};

/// One step of AdamW with PyTorch's semantics, in fp32 without fma:
///   g = clip * grad;  m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + ((1 - beta2) * g) * g
///   w = w * (1 - lr * weight_decay) - (lr * inv_bias1 * m) / (sqrt(v * inv_bias2) + eps)
/// A NaN is stored as 0x7fc00000. `*nonfinite` (optional) is set to 1, never cleared, when a new
/// master is NaN or infinite, or, split, would give an infinite weight (`kSplitNonFinite`); the
/// values are stored all the same. The caller holds the pool's turn; slices do not overlap.
void adamw(ThreadPool&, std::span<const AdamWSlice>, DType weight_type, DType grad_type,
           const AdamWParams&, const StepScale*, std::atomic<uint32_t>* nonfinite = nullptr);

struct SgdParams {
  double lr, momentum;
};

struct SgdSlice {
  void* weight;
  uint16_t* remainder;  ///< null for fp32 weights
  const void* grad;
  float* m;  ///< momentum buffer, zero before the first step; null: no momentum
  uint64_t n;
  float weight_decay;  ///< added to the gradient, as in PyTorch
};

/// One step of SGD with PyTorch's semantics (dampening 0), as `adamw` otherwise:
///   g = clip * grad + weight_decay * w;  m = momentum * m + g;  w = w - lr * m   (m = g without m)
void sgd(ThreadPool&, std::span<const SgdSlice>, DType weight_type, DType grad_type,
         const SgdParams&, const StepScale*, std::atomic<uint32_t>* nonfinite = nullptr);

/// 1 - beta^step by repeated squaring in double: `pow` differs between libraries.
double bias_correction(double beta, uint64_t step);

}  // namespace strata::kernels
