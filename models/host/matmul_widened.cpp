#include "models/host/matmul_widened.hpp"

namespace strata::host {
namespace {

/// Rows and columns as they are stored.
struct Stored {
  int64_t rows, cols;
};

Stored stored_a(const MatmulShape& s) {
  return s.transpose_a ? Stored{s.k, s.m} : Stored{s.m, s.k};
}
Stored stored_b(const MatmulShape& s) {
  return s.transpose_b ? Stored{s.n, s.k} : Stored{s.k, s.n};
}

MatmulShape in_fp32(MatmulShape s) {
  s.lda = stored_a(s).cols;
  s.ldb = stored_b(s).cols;
  if (s.out == DType::bf16) s.ldc = s.n;
  s.in = s.out = DType::f32;
  return s;
}

size_t fp32_bytes(const Stored& m) {
  constexpr size_t kLine = 64;
  return (static_cast<size_t>(m.rows * m.cols) * sizeof(float) + kLine - 1) / kLine * kLine;
}

void widen(const void* from, int64_t ld, const Stored& m, float* to) {
  for (int64_t i = 0; i < m.rows; ++i) {
    const Bf16* const row = static_cast<const Bf16*>(from) + i * ld;
    float* const out = to + i * m.cols;
    for (int64_t j = 0; j < m.cols; ++j) out[j] = to_float(row[j]);
  }
}

void round_to_bf16(const float* from, const Stored& m, void* to, int64_t ld) {
  for (int64_t i = 0; i < m.rows; ++i) {
    const float* const row = from + i * m.cols;
    Bf16* const out = static_cast<Bf16*>(to) + i * ld;
    for (int64_t j = 0; j < m.cols; ++j) out[j] = to_bf16(row[j]);
  }
}

}  // namespace

WidenedMatmul::WidenedMatmul(const MatmulShape& shape) : shape_(shape), product_(in_fp32(shape)) {}

size_t WidenedMatmul::scratch_bytes() const noexcept {
  const size_t c = shape_.out == DType::bf16 ? fp32_bytes({shape_.m, shape_.n}) : 0;
  return fp32_bytes(stored_a(shape_)) + fp32_bytes(stored_b(shape_)) + c + product_.scratch_bytes();
}

void WidenedMatmul::run(const void* a, const void* b, void* c, void* scratch) const {
  auto* at = static_cast<std::byte*>(scratch);
  const auto take = [&](const Stored& m) {
    auto* const out = reinterpret_cast<float*>(at);
    at += fp32_bytes(m);
    return out;
  };
  const Stored as = stored_a(shape_), bs = stored_b(shape_), cs{shape_.m, shape_.n};
  float* const wide_a = take(as);
  float* const wide_b = take(bs);
  widen(a, shape_.lda, as, wide_a);
  widen(b, shape_.ldb, bs, wide_b);
  if (shape_.out == DType::f32) return product_.run(wide_a, wide_b, c, at);
  float* const wide_c = take(cs);
  if (shape_.accumulate) widen(c, shape_.ldc, cs, wide_c);
  product_.run(wide_a, wide_b, wide_c, at);
  round_to_bf16(wide_c, cs, c, shape_.ldc);
}

}  // namespace strata::host
