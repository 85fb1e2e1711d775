// Bias and residual additions, and the gradient of a bias.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// y[row] += bias for each row of y [rows, width], in fp32, rounded once.
void add_bias(ThreadPool& pool, DType dtype, void* y, const void* bias, size_t rows, size_t width);

/// r = x + y, element-wise over `count` elements. r may be x or y.
void add_residual(ThreadPool& pool, DType dtype, void* r, const void* x, const void* y,
                  size_t count);

/// r = (x + y) + bias for each row of the [rows, width] matrices, in fp32, rounded once; without x
/// when it is null. r may be x or y.
struct BiasResidual {
  DType dtype = DType::f32;
  void* r = nullptr;
  const void* x = nullptr;
  const void* y = nullptr;
  const void* bias = nullptr;
  size_t rows = 0, width = 0;
};
void add_bias_residual(ThreadPool& pool, const BiasResidual& args);

/// dbias = column sums of dy [rows, width]: fp32 over fixed row groups, rounded once. `scratch`
/// holds bias_gradient_scratch bytes at a 64-byte boundary.
void bias_gradient(ThreadPool& pool, DType dtype, void* dbias, const void* dy, size_t rows,
                   size_t width, void* scratch);
size_t bias_gradient_scratch(size_t rows, size_t width);

}  // namespace strata::host
