// The gradient of a bias; adding one is an epilogue of the product.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// dbias = column sums of dy [rows, width]: fp32 over fixed row groups, rounded once. `scratch`
/// holds bias_gradient_scratch bytes at a 64-byte boundary.
void bias_gradient(ThreadPool& pool, DType dtype, void* dbias, const void* dy, size_t rows,
                   size_t width, void* scratch);
size_t bias_gradient_scratch(size_t rows, size_t width);

}  // namespace strata::host
