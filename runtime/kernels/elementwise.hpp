// Element-wise kernels of the host backend. Bits depend neither on threads nor on the SIMD target.
#pragma once
#include <cstdint>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::kernels {

// The caller of every function here holds the pool's turn. Ranges must not overlap, except that
// `dst` may equal `src` where both have one type. Denormals are IEEE whatever the caller's MXCSR.

/// dst[i] = src[i] in dst's type, i < n: nearest, ties to even; NaN keeps its upper bits, made
/// quiet.
void store_cast(ThreadPool&, void* dst, DType dst_type, const void* src, DType src_type,
                uint64_t n);

/// acc[i] += x[i], i < n: one fp32 addition, then rounded to acc's type. A NaN becomes 0x7fc00000
/// (0x7fc0 in bf16), since which operand's payload survives differs between compilers.
void accumulate(ThreadPool&, void* acc, DType acc_type, const void* x, DType x_type, uint64_t n);

/// (hi[i], lo[i]) = split(master[i]), i < n; see split_master.hpp.
void split(ThreadPool&, const float* master, Bf16* hi, uint16_t* lo, uint64_t n);

/// master[i] = join(hi[i], lo[i]), i < n.
void join(ThreadPool&, const Bf16* hi, const uint16_t* lo, float* master, uint64_t n);

}  // namespace strata::kernels
