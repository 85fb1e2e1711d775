#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/gemm_pack.cpp"
#include <hwy/foreach_target.h>
// Highway's own headers come after foreach_target.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "models/host/gemm_pack.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
constexpr size_t kLanes = 1;
#elif HWY_CAP_GE512
constexpr size_t kLanes = 16;
#elif HWY_CAP_GE256
constexpr size_t kLanes = 8;
#else
constexpr size_t kLanes = 4;
#endif
using D32 = hn::FixedTag<uint32_t, kLanes>;
using V32 = hn::Vec<D32>;

#if HWY_TARGET != HWY_SCALAR
/// Columns of the source walked together, about a cache line of it: reads and writes stay few
/// streams each.
constexpr size_t kStrip = 32;

/// 16 bytes each from p, p + stride, p + 2 * stride, ... (stride in bytes).
HWY_INLINE V32 load_strided(const uint8_t* p, size_t stride) {
  const auto row = [p, stride](size_t r) HWY_ATTR {
    const hn::FixedTag<uint8_t, 16> d8;
    return hn::BitCast(hn::FixedTag<uint32_t, 4>(), hn::LoadU(d8, p + r * stride));
  };
#if HWY_CAP_GE512
  const hn::FixedTag<uint32_t, 8> half;
  return hn::Combine(D32(), hn::Combine(half, row(3), row(2)), hn::Combine(half, row(1), row(0)));
#elif HWY_CAP_GE256
  return hn::Combine(D32(), row(1), row(0));
#else
  return row(0);
#endif
}

/// Stores the transpose of four such vectors (rows 0, 1, 2, 3 and every fourth after) as 4 rows.
HWY_INLINE void store_transposed(V32 r0, V32 r1, V32 r2, V32 r3, uint32_t* out, size_t stride) {
  const D32 d;
  const hn::Repartition<uint64_t, D32> d64;
  const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(d, r0, r1));
  const auto hi01 = hn::BitCast(d64, hn::InterleaveUpper(d, r0, r1));
  const auto lo23 = hn::BitCast(d64, hn::InterleaveLower(d, r2, r3));
  const auto hi23 = hn::BitCast(d64, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, lo01, lo23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, lo01, lo23)), d, out + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, hi01, hi23)), d, out + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, hi01, hi23)), d, out + 3 * stride);
}
#endif

/// out[c * ldo + r] = in[r * ldi + c] for words of 4 bytes at any 2-byte boundary.
void transpose_words(const uint8_t* in, size_t ldi_bytes, size_t rows, size_t cols, uint32_t* out,
                     size_t ldo) {
  size_t full_rows = 0;
  size_t full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  full_rows = rows / kLanes * kLanes;
  full_cols = cols / 4 * 4;
  for (size_t c0 = 0; c0 < full_cols; c0 += kStrip) {
    const size_t c1 = std::min(c0 + kStrip, full_cols);
    for (size_t r = 0; r < full_rows; r += kLanes) {
      for (size_t c = c0; c < c1; c += 4) {
        const uint8_t* const p = in + r * ldi_bytes + 4 * c;
        store_transposed(load_strided(p, 4 * ldi_bytes), load_strided(p + ldi_bytes, 4 * ldi_bytes),
                         load_strided(p + 2 * ldi_bytes, 4 * ldi_bytes),
                         load_strided(p + 3 * ldi_bytes, 4 * ldi_bytes), out + c * ldo + r, ldo);
      }
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < full_rows ? full_cols : 0; c < cols; ++c) {
      std::memcpy(out + c * ldo + r, in + r * ldi_bytes + 4 * c, 4);
    }
  }
}

void pack_b_rows_f32(const float* b, size_t ldb, size_t k, size_t n, float* packed, size_t block) {
  const hn::FixedTag<float, kLanes> d;
  for (size_t p = 0; p < k; ++p) {
    for (size_t j0 = 0; j0 < n; j0 += kPackColumns) {
      const float* const in = b + p * ldb + j0;
      float* const out = packed + j0 / kPackColumns * block + p * kPackColumns;
      if (j0 + kPackColumns <= n) {
        for (size_t j = 0; j < kPackColumns; j += kLanes) {
          hn::StoreU(hn::LoadU(d, in + j), d, out + j);
        }
      } else {
        for (size_t j = 0; j < kPackColumns; ++j) out[j] = j0 + j < n ? in[j] : 0.0f;
      }
    }
  }
}

/// Pairs rows p and p + 1 column by column; a missing last row counts as zeros.
void pack_b_rows_bf16(const uint16_t* b, size_t ldb, size_t k, size_t n, uint32_t* packed,
                      size_t block) {
  const D32 d;
  const hn::FixedTag<uint16_t, kLanes> d16;
  for (size_t p = 0; p < k; p += 2) {
    for (size_t j0 = 0; j0 < n; j0 += kPackColumns) {
      const uint16_t* const even = b + p * ldb + j0;
      const uint16_t* const odd = even + ldb;
      uint32_t* const out = packed + j0 / kPackColumns * block + p / 2 * kPackColumns;
      if (j0 + kPackColumns <= n && p + 1 < k) {
        for (size_t j = 0; j < kPackColumns; j += kLanes) {
          const auto lo = hn::PromoteTo(d, hn::LoadU(d16, even + j));
          const auto hi = hn::PromoteTo(d, hn::LoadU(d16, odd + j));
          hn::StoreU(hn::Or(lo, hn::ShiftLeft<16>(hi)), d, out + j);
        }
      } else {
        for (size_t j = 0; j < kPackColumns; ++j) {
          const uint32_t lo = j0 + j < n ? even[j] : 0;
          const uint32_t hi = j0 + j < n && p + 1 < k ? odd[j] : 0;
          out[j] = lo | hi << 16;
        }
      }
    }
  }
}

/// out[c][r] = in[r][c] for 2-byte elements: pairs of rows become words, words are transposed.
void transpose_bf16(const uint16_t* in, size_t ldi, size_t rows, size_t cols, uint16_t* out,
                    size_t ldo) {
  size_t full_rows = 0;
  size_t full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr size_t kRows = 2 * kLanes;
  full_rows = rows / kRows * kRows;
  full_cols = ldo % 2 == 0 ? cols / 8 * 8 : 0;
  const D32 d;
  const hn::Repartition<uint16_t, D32> d16;
  for (size_t c0 = 0; c0 < full_cols; c0 += kStrip) {
    const size_t c1 = std::min(c0 + kStrip, full_cols);
    for (size_t r = 0; r < full_rows; r += kRows) {
      for (size_t c = c0; c < c1; c += 8) {
        const auto* const p = reinterpret_cast<const uint8_t*>(in + r * ldi + c);
        V32 lower[4], upper[4];
        for (size_t i = 0; i < 4; ++i) {
          // Row pair i of every fourth pair: pairs are 4 * ldi bytes apart.
          const auto even = hn::BitCast(d16, load_strided(p + 4 * i * ldi, 16 * ldi));
          const auto odd = hn::BitCast(d16, load_strided(p + (4 * i + 2) * ldi, 16 * ldi));
          lower[i] = hn::BitCast(d, hn::InterleaveLower(d16, even, odd));
          upper[i] = hn::BitCast(d, hn::InterleaveUpper(d16, even, odd));
        }
        auto* const to = reinterpret_cast<uint32_t*>(out + c * ldo + r);
        store_transposed(lower[0], lower[1], lower[2], lower[3], to, ldo / 2);
        store_transposed(upper[0], upper[1], upper[2], upper[3], to + 2 * ldo, ldo / 2);
      }
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < full_rows ? full_cols : 0; c < cols; ++c)
      out[c * ldo + r] = in[r * ldi + c];
  }
}

void pack_b(const void* b, int64_t ldb, bool transposed, int64_t k, int64_t n, DType t,
            void* packed, int64_t depth) {
  const size_t bytes = size_of(t);
  const size_t per_word = 4 / bytes;  // elements of k in a word
  const size_t block = static_cast<size_t>(depth * kPackColumns) * bytes / 4;
  const size_t rows = (static_cast<size_t>(k) + per_word - 1) / per_word;  // of words
  const size_t padded = static_cast<size_t>(round_up(k, pack_depth(t))) / per_word;
  auto* const words = static_cast<uint32_t*>(packed);
  for (int64_t j = 0; j < n; j += kPackColumns) {
    uint32_t* const out = words + static_cast<size_t>(j / kPackColumns) * block;
    std::fill(out + rows * kPackColumns, out + padded * kPackColumns, 0u);
    if (transposed && n - j < kPackColumns) std::fill_n(out, rows * kPackColumns, 0u);
  }
  if (!transposed) {
    if (t == DType::f32) {
      pack_b_rows_f32(static_cast<const float*>(b), ldb, k, n, static_cast<float*>(packed), block);
    } else {
      pack_b_rows_bf16(static_cast<const uint16_t*>(b), ldb, k, n, words, block);
    }
    return;
  }
  for (int64_t j = 0; j < n; j += kPackColumns) {
    const int64_t cols = std::min(kPackColumns, n - j);
    uint32_t* const out = words + static_cast<size_t>(j / kPackColumns) * block;
    const auto* const in = static_cast<const uint8_t*>(b) + static_cast<size_t>(j * ldb) * bytes;
    transpose_words(in, static_cast<size_t>(ldb) * bytes, cols, k / per_word, out, kPackColumns);
    if (k % static_cast<int64_t>(per_word) != 0) {  // the last row of an odd k has no partner
      for (int64_t c = 0; c < cols; ++c) {
        uint16_t last;
        std::memcpy(&last, in + static_cast<size_t>(c * ldb + k - 1) * bytes, 2);
        out[(rows - 1) * kPackColumns + c] = last;
      }
    }
  }
}

void transpose_a(const void* a, int64_t lda, int64_t m, int64_t k, DType t, void* out,
                 int64_t ldo) {
  if (t == DType::f32) {
    transpose_words(static_cast<const uint8_t*>(a), static_cast<size_t>(lda) * 4, k, m,
                    static_cast<uint32_t*>(out), ldo);
  } else {
    transpose_bf16(static_cast<const uint16_t*>(a), lda, k, m, static_cast<uint16_t*>(out), ldo);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(pack_b);
HWY_EXPORT(transpose_a);

void pack_b(const void* b, int64_t ldb, bool transposed, int64_t k, int64_t n, DType t,
            void* packed, int64_t depth) {
  HWY_DYNAMIC_DISPATCH(pack_b)(b, ldb, transposed, k, n, t, packed, depth);
}

void transpose_a(const void* a, int64_t lda, int64_t m, int64_t k, DType t, void* out,
                 int64_t ldo) {
  HWY_DYNAMIC_DISPATCH(transpose_a)(a, lda, m, k, t, out, ldo);
}

}  // namespace strata::host
#endif
