// The last step of column sums: partial sums of row groups, added in group order.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// out[j] = sum over g of sums[g * stride + j] for j < width, in ascending g from 0, in fp32,
/// rounded once to `dtype`. No groups give zeros.
void add_groups(ThreadPool& pool, DType dtype, void* out, const float* sums, size_t groups,
                size_t stride, size_t width);

}  // namespace strata::host
