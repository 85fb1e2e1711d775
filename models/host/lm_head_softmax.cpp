#include "models/host/lm_head_softmax.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/lm_head_softmax.cpp"
#include <hwy/foreach_target.h>
// Highway's own headers come after foreach_target.h.
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

template <class D>
HWY_INLINE hn::VFromD<D> exp_of(D d, hn::VFromD<D> x) {
  return exp2(d, hn::Mul(x, hn::Set(d, kLog2e)));
}

// Exponentials and row factors below these count as zero, so that their products are not denormal:
// a processor takes a hundred times longer over those, and they mean nothing.
constexpr float kLeastExponential = 0x1p-50f;
constexpr float kLeastFactor = 0x1p-70f;

template <class D>
HWY_INLINE hn::VFromD<D> zero_below(D d, hn::VFromD<D> v, float least) {
  return hn::IfThenZeroElse(hn::Lt(v, hn::Set(d, least)), v);
}

/// Calls f(tag, j) for [0, n) in whole vectors, then one by one.
template <class F>
HWY_INLINE void for_lanes(int64_t n, F f) {
  const Full full;
  const auto step = static_cast<int64_t>(hn::Lanes(full));
  int64_t j = 0;
  for (; j + step <= n; j += step) f(full, j);
  for (; j < n; ++j) f(One(), j);
}

void maxima_of(const float* x, int64_t rows, int64_t cols, float* maxima) {
  for_lanes(cols,
            [=](auto d, int64_t j) HWY_ATTR { hn::StoreU(hn::LoadU(d, x + j), d, maxima + j); });
  for (int64_t i = 1; i < rows; ++i) {
    const float* const row = x + i * cols;
    for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR {
      hn::StoreU(hn::Max(hn::LoadU(d, maxima + j), hn::LoadU(d, row + j)), d, maxima + j);
    });
  }
}

template <class T>
void exponentials_of(const float* x, int64_t rows, int64_t cols, T* e, float* maxima, float* sums) {
  maxima_of(x, rows, cols, maxima);
  for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR { hn::StoreU(hn::Zero(d), d, sums + j); });
  for (int64_t i = 0; i < rows; ++i) {
    const float* const row = x + i * cols;
    T* const out = e + i * cols;
    for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR {
      const auto v = hn::LoadU(d, row + j);
      const auto y =
          zero_below(d, exp_of(d, hn::Sub(v, hn::LoadU(d, maxima + j))), kLeastExponential);
      store(d, y, out + j);
      // 0 * x is NaN for an infinite x, which exp alone would turn into a plain number.
      hn::StoreU(hn::Add(hn::LoadU(d, sums + j), hn::MulAdd(v, hn::Zero(d), y)), d, sums + j);
    });
  }
}

void exponentials_f32(const float* x, int64_t rows, int64_t cols, void* e, float* maxima,
                      float* sums) {
  exponentials_of(x, rows, cols, static_cast<float*>(e), maxima, sums);
}
void exponentials_bf16(const float* x, int64_t rows, int64_t cols, void* e, float* maxima,
                       float* sums) {
  exponentials_of(x, rows, cols, static_cast<Bf16*>(e), maxima, sums);
}

void join(const float* maxima, const float* sums, int64_t tiles, int64_t stride, int64_t cols,
          float* maximum, float* sum) {
  for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR {
    auto most = hn::LoadU(d, maxima + j);
    for (int64_t i = 1; i < tiles; ++i) most = hn::Max(most, hn::LoadU(d, maxima + i * stride + j));
    auto total = hn::Zero(d);
    for (int64_t i = 0; i < tiles; ++i) {
      const auto m = hn::LoadU(d, maxima + i * stride + j);
      total =
          hn::Add(total, hn::Mul(hn::LoadU(d, sums + i * stride + j), exp_of(d, hn::Sub(m, most))));
    }
    hn::StoreU(most, d, maximum + j);
    hn::StoreU(total, d, sum + j);
  });
}

void factors_of(const float* maxima, const float* log_sums, const float* weights, int64_t cols,
                float* factors) {
  for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR {
    const auto x = hn::Sub(hn::LoadU(d, maxima + j), hn::LoadU(d, log_sums + j));
    const auto f = hn::Mul(hn::LoadU(d, weights + j), exp_of(d, x));
    hn::StoreU(zero_below(d, f, kLeastFactor), d, factors + j);
  });
}

template <class T>
void scale_of(const T* e, int64_t rows, int64_t cols, const float* factors, T* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* const from = e + i * cols;
    T* const to = out + i * cols;
    for_lanes(cols, [=](auto d, int64_t j) HWY_ATTR {
      store(d, hn::Mul(load(d, from + j), hn::LoadU(d, factors + j)), to + j);
    });
  }
}

void scale_f32(const void* e, int64_t rows, int64_t cols, const float* factors, void* out) {
  scale_of(static_cast<const float*>(e), rows, cols, factors, static_cast<float*>(out));
}
void scale_bf16(const void* e, int64_t rows, int64_t cols, const float* factors, void* out) {
  scale_of(static_cast<const Bf16*>(e), rows, cols, factors, static_cast<Bf16*>(out));
}

template <class T>
void sum_of(const float* part, int64_t parts, int64_t stride, int64_t count, T* out) {
  for_lanes(count, [=](auto d, int64_t j) HWY_ATTR {
    auto sum = hn::LoadU(d, part + j);
    for (int64_t i = 1; i < parts; ++i) sum = hn::Add(sum, hn::LoadU(d, part + i * stride + j));
    store(d, sum, out + j);
  });
}

void sum_f32(const float* part, int64_t parts, int64_t stride, int64_t count, void* out) {
  sum_of(part, parts, stride, count, static_cast<float*>(out));
}
void sum_bf16(const float* part, int64_t parts, int64_t stride, int64_t count, void* out) {
  sum_of(part, parts, stride, count, static_cast<Bf16*>(out));
}

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(exponentials_f32);
HWY_EXPORT(exponentials_bf16);
HWY_EXPORT(join);
HWY_EXPORT(factors_of);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_bf16);
HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_bf16);

void exponentials(const float* x, int64_t rows, int64_t cols, DType t, void* e, float* maxima,
                  float* sums) {
  const auto f = t == DType::f32 ? HWY_DYNAMIC_DISPATCH(exponentials_f32)
                                 : HWY_DYNAMIC_DISPATCH(exponentials_bf16);
  f(x, rows, cols, e, maxima, sums);
}

void join_exponentials(const float* maxima, const float* sums, int64_t tiles, int64_t stride,
                       int64_t cols, float* maximum, float* sum) {
  HWY_DYNAMIC_DISPATCH(join)(maxima, sums, tiles, stride, cols, maximum, sum);
}

void softmax_factors(const float* maxima, const float* log_sums, const float* weights, int64_t cols,
                     float* factors) {
  HWY_DYNAMIC_DISPATCH(factors_of)(maxima, log_sums, weights, cols, factors);
}

void scale_columns(const void* e, int64_t rows, int64_t cols, DType t, const float* factors,
                   void* out) {
  const auto f =
      t == DType::f32 ? HWY_DYNAMIC_DISPATCH(scale_f32) : HWY_DYNAMIC_DISPATCH(scale_bf16);
  f(e, rows, cols, factors, out);
}

void sum_parts(const float* part, int64_t parts, int64_t stride, int64_t count, DType t,
               void* out) {
  const auto f = t == DType::f32 ? HWY_DYNAMIC_DISPATCH(sum_f32) : HWY_DYNAMIC_DISPATCH(sum_bf16);
  f(part, parts, stride, count, out);
}

}  // namespace strata::host
#endif
