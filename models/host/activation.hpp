// The tanh approximation of GELU (GPT-2's "gelu_new"), forward and backward.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// y = gelu(x) over `count` elements, where gelu(x) = x / 2 * (1 + tanh(u)) and
/// u = sqrt(2 / pi) * (x + 0.044715 x^3). y may be x.
void gelu_forward(ThreadPool& pool, DType dtype, void* y, const void* x, size_t count);

/// dx = dy * gelu'(x) over `count` elements; x is what went into the forward. dx may be dy or x.
void gelu_backward(ThreadPool& pool, DType dtype, void* dx, const void* dy, const void* x,
                   size_t count);

}  // namespace strata::host
