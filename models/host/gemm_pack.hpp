// Rearranges operands of a matrix product into the order the kernels read them. Exact copies: no
// result depends on whether, where or how often an operand is packed.
#pragma once
#include <cstddef>
#include <cstdint>

#include "runtime/dtype.hpp"

namespace strata::host {

/// Columns of one block of a packed B.
constexpr int64_t kPackColumns = 64;

/// Rows (k) of a packed B are padded with zeros to a multiple of this.
constexpr int64_t pack_depth(DType t) noexcept { return t == DType::f32 ? 16 : 32; }

constexpr int64_t round_up(int64_t x, int64_t to) noexcept { return (x + to - 1) / to * to; }

/// Bytes of B[k, n] in packed form.
constexpr size_t packed_b_bytes(int64_t k, int64_t n, DType t) noexcept {
  return static_cast<size_t>(round_up(k, pack_depth(t)) * round_up(n, kPackColumns)) * size_of(t);
}

/// Packs B[k, n] (stored as [n, k] when `transposed`) with leading dimension ldb in elements:
/// blocks of 64 columns, each [depth][64] in fp32 and [depth / 2][64][2] in bf16, of which this
/// call writes the first k rows and the zeros that round k up to pack_depth. `packed` may point to
/// a row inside the first block (a multiple of pack_depth), so that threads can share the rows.
void pack_b(const void* b, int64_t ldb, bool transposed, int64_t k, int64_t n, DType t,
            void* packed, int64_t depth);

/// Transposes a[k, m] with leading dimension lda into out[m, k] with leading dimension ldo.
void transpose_a(const void* a, int64_t lda, int64_t m, int64_t k, DType t, void* out, int64_t ldo);

}  // namespace strata::host
