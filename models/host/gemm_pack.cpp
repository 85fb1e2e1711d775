#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/gemm_pack.cpp"
#include <hwy/foreach_target.h>
// Highway's own headers come after foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "models/host/gemm_pack.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {

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

/// A block of the source, copied together first: rows a multiple of the page size apart share a few
/// sets of the first-level cache and would push each other out.
constexpr size_t kBlockRows = 64;
constexpr size_t kBlockBytes = 128;  // of each row
struct alignas(64) Block {
  uint8_t bytes[kBlockRows * kBlockBytes];
};

/// out[c * ldo + r] = block[r][c] for words of 4 bytes.
void transpose_block(const Block& block, size_t rows, size_t cols, uint32_t* out, size_t ldo) {
  size_t full_rows = 0;
  size_t full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  full_rows = rows / kLanes * kLanes;
  full_cols = cols / 4 * 4;
  for (size_t r = 0; r < full_rows; r += kLanes) {
    for (size_t c = 0; c < full_cols; c += 4) {
      const uint8_t* const p = block.bytes + r * kBlockBytes + 4 * c;
      store_transposed(load_strided(p, 4 * kBlockBytes),
                       load_strided(p + kBlockBytes, 4 * kBlockBytes),
                       load_strided(p + 2 * kBlockBytes, 4 * kBlockBytes),
                       load_strided(p + 3 * kBlockBytes, 4 * kBlockBytes), out + c * ldo + r, ldo);
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < full_rows ? full_cols : 0; c < cols; ++c) {
      std::memcpy(out + c * ldo + r, block.bytes + r * kBlockBytes + 4 * c, 4);
    }
  }
}

/// The same for elements of 2 bytes: pairs of rows become words, words are transposed.
void transpose_block(const Block& block, size_t rows, size_t cols, uint16_t* out, size_t ldo) {
  size_t full_rows = 0;
  size_t full_cols = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr size_t kRows = 2 * kLanes;
  full_rows = rows / kRows * kRows;
  full_cols = ldo % 2 == 0 ? cols / 8 * 8 : 0;
  const D32 d;
  const hn::Repartition<uint16_t, D32> d16;
  for (size_t r = 0; r < full_rows; r += kRows) {
    for (size_t c = 0; c < full_cols; c += 8) {
      const uint8_t* const p = block.bytes + r * kBlockBytes + 2 * c;
      V32 lower[4], upper[4];
      for (size_t i = 0; i < 4; ++i) {
        // Pair i and every fourth pair after it.
        const uint8_t* const q = p + 2 * i * kBlockBytes;
        const auto even = hn::BitCast(d16, load_strided(q, 8 * kBlockBytes));
        const auto odd = hn::BitCast(d16, load_strided(q + kBlockBytes, 8 * kBlockBytes));
        lower[i] = hn::BitCast(d, hn::InterleaveLower(d16, even, odd));
        upper[i] = hn::BitCast(d, hn::InterleaveUpper(d16, even, odd));
      }
      auto* const to = reinterpret_cast<uint32_t*>(out + c * ldo + r);
      store_transposed(lower[0], lower[1], lower[2], lower[3], to, ldo / 2);
      store_transposed(upper[0], upper[1], upper[2], upper[3], to + 2 * ldo, ldo / 2);
    }
  }
#endif
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = r < full_rows ? full_cols : 0; c < cols; ++c) {
      std::memcpy(out + c * ldo + r, block.bytes + r * kBlockBytes + 2 * c, 2);
    }
  }
}

/// out[c * ldo + r] = in[r][c] for elements of type T at any 2-byte boundary.
template <class T>
void transpose(const uint8_t* in, size_t ldi_bytes, size_t rows, size_t cols, T* out, size_t ldo) {
  constexpr size_t kBlockCols = kBlockBytes / sizeof(T);
  Block block;
  for (size_t c0 = 0; c0 < cols; c0 += kBlockCols) {
    const size_t c = std::min(kBlockCols, cols - c0);
    for (size_t r0 = 0; r0 < rows; r0 += kBlockRows) {
      const size_t r = std::min(kBlockRows, rows - r0);
      const uint8_t* const from = in + r0 * ldi_bytes + c0 * sizeof(T);
      // Below, or for the last rows to the right.
      const size_t next = r0 + kBlockRows < rows ? kBlockRows * ldi_bytes : kBlockBytes;
      for (size_t i = 0; i < r; ++i) {
        const uint8_t* const row = from + i * ldi_bytes;
        hwy::Prefetch(row + next);
        hwy::Prefetch(row + next + kBlockBytes / 2);
        uint8_t* const to = block.bytes + i * kBlockBytes;
        if (c == kBlockCols) {
          std::memcpy(to, row, kBlockBytes);
        } else {
          std::memcpy(to, row, c * sizeof(T));
        }
      }
      transpose_block(block, r, c, out + c0 * ldo + r0, ldo);
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
    transpose(in, static_cast<size_t>(ldb) * bytes, cols, k / per_word, out, kPackColumns);
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
  const auto* const in = static_cast<const uint8_t*>(a);
  if (t == DType::f32) {
    transpose(in, static_cast<size_t>(lda) * 4, k, m, static_cast<uint32_t*>(out), ldo);
  } else {
    transpose(in, static_cast<size_t>(lda) * 2, k, m, static_cast<uint16_t*>(out), ldo);
  }
}

}  // namespace strata::host::HWY_NAMESPACE
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
