#include "models/host/matmul_plain.hpp"

#include <algorithm>

#include "models/host/gemm_pack.hpp"

namespace strata::host {

namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kCols = 256;
constexpr int64_t kDepth = 128;

float load(const void* p, DType t, int64_t i) {
  return t == DType::f32 ? static_cast<const float*>(p)[i]
                         : to_float(static_cast<const Bf16*>(p)[i]);
}

void store(void* p, DType t, int64_t i, float x) {
  if (t == DType::f32) {
    static_cast<float*>(p)[i] = x;
  } else {
    static_cast<Bf16*>(p)[i] = to_bf16(x);
  }
}

int64_t index_of_b(const MatmulShape& s, int64_t p, int64_t j) {
  if (s.packed_b) {
    const int64_t block = j / kPackColumns * kPackColumns * round_up(s.k, pack_depth(s.in));
    const int64_t column = j % kPackColumns;
    if (s.in == DType::f32) return block + p * kPackColumns + column;
    return block + p / 2 * 2 * kPackColumns + 2 * column + p % 2;
  }
  return s.transpose_b ? j * s.ldb + p : p * s.ldb + j;
}

/// row += x * y. Nearly all the time of a product is here, on scratch alone, of which the caller
/// has touched the ends: so sanitizers, which would take most of it, need not watch.
__attribute__((no_sanitize("address", "undefined"))) void add_multiple(float* row, float x,
                                                                       const float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) row[j] += x * y[j];
}

}  // namespace

size_t plain_matmul_scratch_bytes(const MatmulShape&) {
  return sizeof(float) * static_cast<size_t>(kDepth * kCols + kRows * kCols);
}

void plain_matmul(const MatmulShape& s, const void* a, const void* b, void* c, float* scratch) {
  float* const panel = scratch;                  // B[kDepth, kCols] as fp32
  float* const sums = scratch + kDepth * kCols;  // C[kRows, kCols] before rounding
  for (int64_t j0 = 0; j0 < s.n; j0 += kCols) {
    const int64_t cols = std::min(kCols, s.n - j0);
    for (int64_t i0 = 0; i0 < s.m; i0 += kRows) {
      const int64_t rows = std::min(kRows, s.m - i0);
      std::fill_n(sums, kRows * kCols, 0.0f);
      for (int64_t p0 = 0; p0 < s.k; p0 += kDepth) {
        const int64_t depth = std::min(kDepth, s.k - p0);
        for (int64_t p = 0; p < depth; ++p) {
          for (int64_t j = 0; j < cols; ++j) {
            panel[p * kCols + j] = load(b, s.in, index_of_b(s, p0 + p, j0 + j));
          }
        }
        for (int64_t i = 0; i < rows; ++i) {
          float* const row = sums + i * kCols;
          for (int64_t p = 0; p < depth; ++p) {
            const float x = load(
                a, s.in, s.transpose_a ? (p0 + p) * s.lda + i0 + i : (i0 + i) * s.lda + p0 + p);
            add_multiple(row, x, panel + p * kCols, cols);
          }
        }
      }
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
          const int64_t at = (i0 + i) * s.ldc + j0 + j;
          const float x = s.scale * sums[i * kCols + j];
          store(c, s.out, at, s.accumulate ? load(c, s.out, at) + x : x);
        }
      }
    }
  }
}

}  // namespace strata::host
