// Layer normalisation over the rows of a matrix, forward and backward.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// y = (x - mean) * rstd * gamma + beta for each row of x, with rstd = 1 / sqrt(variance + eps).
/// Matrices are [rows, width] of `dtype`; gamma and beta [width] of `dtype`; mean and rstd [rows].
struct LayernormForward {
  DType dtype = DType::f32;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  size_t rows = 0, width = 0;
  float eps = 1e-5f;
};
void layernorm_forward(ThreadPool& pool, const LayernormForward& args);

/// Gradients of the above. `residual` (may be null) is added to dx before rounding: the gradient
/// that reaches x past the normalised branch. dx may be `dy` or `residual` itself. dgamma and dbeta
/// are fp32 sums over fixed row groups, rounded once.
struct LayernormBackward {
  DType dtype = DType::f32;
  void* dx = nullptr;
  void* dgamma = nullptr;
  void* dbeta = nullptr;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const void* residual = nullptr;
  void* scratch = nullptr;  ///< layernorm_backward_scratch bytes, 64-byte aligned
  size_t rows = 0, width = 0;
};
void layernorm_backward(ThreadPool& pool, const LayernormBackward& args);
size_t layernorm_backward_scratch(size_t rows, size_t width);

}  // namespace strata::host
