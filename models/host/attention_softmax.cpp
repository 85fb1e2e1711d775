#include "models/host/attention_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/attention_softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.
// Vectors on the diagonal are masked, so only the last elements of an odd row are done one by one.

constexpr float kLowest = std::numeric_limits<float>::lowest();

template <class D>
HWY_INLINE size_t max_lanes(D d, const float* s, size_t seen, float& max, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  auto m = hn::Set(d, kLowest);
  auto m2 = m;
  for (; i + 2 * step <= seen; i += 2 * step) {
    m = hn::Max(m, load(d, s + i));
    m2 = hn::Max(m2, load(d, s + i + step));
  }
  m = hn::Max(m, m2);
  for (; i < seen && i + step <= n; i += step) {
    const auto mask = hn::FirstN(d, seen - i);
    m = hn::Max(m, hn::IfThenElse(mask, load(d, s + i), hn::Set(d, kLowest)));
  }
  max = std::max(max, hn::GetLane(hn::MaxOfLanes(d, m)));
  return i;
}

/// p = 2^(s * factor - shift) for the first `seen` of n elements, 0 for the others; adds them up.
template <class D, class T>
HWY_INLINE size_t exp_lanes(D d, T* p, const float* s, float factor, float shift, size_t seen,
                            float& sum, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  const auto c = hn::Set(d, shift);
  Sums<D> sums(d);
  for (; i + 2 * step <= seen; i += 2 * step) {
    const auto e0 = exp2(d, hn::MulSub(load(d, s + i), f, c));
    const auto e1 = exp2(d, hn::MulSub(load(d, s + i + step), f, c));
    sums.a = hn::Add(sums.a, e0);
    sums.b = hn::Add(sums.b, e1);
    store(d, e0, p + i);
    store(d, e1, p + i + step);
  }
  for (; i < seen && i + step <= n; i += step) {
    const auto e = exp2(d, hn::MulSub(load(d, s + i), f, c));
    const auto kept = hn::IfThenElseZero(hn::FirstN(d, seen - i), e);
    sums.c = hn::Add(sums.c, kept);
    store(d, kept, p + i);
  }
  sum += sums.total(d);
  for (; i + step <= n && i >= seen; i += step) store(d, hn::Zero(d), p + i);
  return i;
}

template <class T>
void forward_block(const SoftmaxForward& a) {
  const float factor = a.scale * kLog2e;
  for (size_t r = 0; r < a.rows; ++r) {
    const float* s = a.scores + r * a.cols;
    T* p = static_cast<T*>(a.p) + r * a.cols;
    const size_t seen = a.first_row + r + 1;
    float max = kLowest;
    max_lanes(One(), s, seen, max, max_lanes(Full(), s, seen, max, 0, a.cols), seen);
    const float shift = max * factor;
    float sum = 0;
    const size_t i = exp_lanes(Full(), p, s, factor, shift, seen, sum, 0, a.cols);
    exp_lanes(One(), p, s, factor, shift, seen, sum, i, a.cols);
    a.inverse[r] = 1.0f / sum;
    a.lse[r] = max * a.scale + static_cast<float>(std::log(static_cast<double>(sum)));
  }
}

void forward_f32(const SoftmaxForward& a) { forward_block<float>(a); }
void forward_bf16(const SoftmaxForward& a) { forward_block<Bf16>(a); }

template <class D, class T>
struct BackwardRow {
  T* p;
  T* ds;
  const float* scores;
  const float* dp;
  const float* lse;
  const float* delta;
  float scale;

  /// The probabilities and score gradients of the vector at i, before masking.
  HWY_INLINE void at(D d, size_t i, hn::VFromD<D>& prob, hn::VFromD<D>& grad) const {
    const auto lse2 = hn::Mul(load(d, lse + i), hn::Set(d, kLog2e));
    prob = exp2(d, hn::MulSub(load(d, scores + i), hn::Set(d, scale * kLog2e), lse2));
    const auto centred = hn::Sub(load(d, dp + i), load(d, delta + i));
    grad = hn::Mul(hn::Mul(prob, hn::Set(d, scale)), centred);
  }
};

/// Elements before `hidden` are masked.
template <class D, class T>
HWY_INLINE size_t backward_lanes(D d, const BackwardRow<D, T>& row, size_t hidden, size_t i,
                                 size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n && i < hidden; i += step) {
    auto prob = hn::Zero(d);
    auto grad = prob;
    if (i + step > hidden) {
      row.at(d, i, prob, grad);
      const auto mask = hn::FirstN(d, hidden - i);
      prob = hn::IfThenZeroElse(mask, prob);
      grad = hn::IfThenZeroElse(mask, grad);
    }
    store(d, prob, row.p + i);
    store(d, grad, row.ds + i);
  }
  for (; i + step <= n; i += step) {
    hn::VFromD<D> prob, grad;
    row.at(d, i, prob, grad);
    store(d, prob, row.p + i);
    store(d, grad, row.ds + i);
  }
  return i;
}

template <class T>
void backward_block(const SoftmaxBackward& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const size_t at = r * a.cols;
    T* p = static_cast<T*>(a.p) + at;
    T* ds = static_cast<T*>(a.ds) + at;
    const BackwardRow<Full, T> full{p, ds, a.scores + at, a.dp + at, a.lse, a.delta, a.scale};
    const BackwardRow<One, T> one{p, ds, a.scores + at, a.dp + at, a.lse, a.delta, a.scale};
    backward_lanes(One(), one, r, backward_lanes(Full(), full, r, 0, a.cols), a.cols);
  }
}

void backward_f32(const SoftmaxBackward& a) { backward_block<float>(a); }
void backward_bf16(const SoftmaxBackward& a) { backward_block<Bf16>(a); }

template <class D, class T>
HWY_INLINE size_t scale_lanes(D d, T* out, const float* x, float factor, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    store(d, hn::Mul(load(d, x + i), hn::Set(d, factor)), out + i);
  }
  return i;
}

template <class T>
void scale_block(void* out, size_t ldo, const float* x, const float* factor, size_t rows,
                 size_t width) {
  for (size_t r = 0; r < rows; ++r) {
    T* to = static_cast<T*>(out) + r * ldo;
    const float* from = x + r * width;
    const float f = factor ? factor[r] : 1.0f;
    scale_lanes(One(), to, from, f, scale_lanes(Full(), to, from, f, 0, width), width);
  }
}

void scale_f32(void* out, size_t ldo, const float* x, const float* factor, size_t rows,
               size_t width) {
  scale_block<float>(out, ldo, x, factor, rows, width);
}
void scale_bf16(void* out, size_t ldo, const float* x, const float* factor, size_t rows,
                size_t width) {
  scale_block<Bf16>(out, ldo, x, factor, rows, width);
}

template <class D, class T>
HWY_INLINE size_t dot_lanes(D d, const T* a, const T* b, float& total, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (; i + step <= n; i += step) sum = hn::MulAdd(load(d, a + i), load(d, b + i), sum);
  total += sum_of_lanes(d, sum);
  return i;
}

template <class T>
void dot_block(float* dots, const void* a, const void* b, size_t ld, size_t rows, size_t width) {
  for (size_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(a) + r * ld;
    const T* y = static_cast<const T*>(b) + r * ld;
    float total = 0;
    dot_lanes(One(), x, y, total, dot_lanes(Full(), x, y, total, 0, width), width);
    dots[r] = total;
  }
}

void dot_f32(float* dots, const void* a, const void* b, size_t ld, size_t rows, size_t width) {
  dot_block<float>(dots, a, b, ld, rows, width);
}
void dot_bf16(float* dots, const void* a, const void* b, size_t ld, size_t rows, size_t width) {
  dot_block<Bf16>(dots, a, b, ld, rows, width);
}

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_bf16);
HWY_EXPORT(backward_f32);
HWY_EXPORT(backward_bf16);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_bf16);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_bf16);

void softmax_forward(const SoftmaxForward& args) {
  (args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(forward_f32)
                            : HWY_DYNAMIC_DISPATCH(forward_bf16))(args);
}

void softmax_backward(const SoftmaxBackward& args) {
  (args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(backward_f32)
                            : HWY_DYNAMIC_DISPATCH(backward_bf16))(args);
}

void scale_rows(DType dtype, void* out, size_t ldo, const float* x, const float* factor,
                size_t rows, size_t width) {
  (dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(scale_f32) : HWY_DYNAMIC_DISPATCH(scale_bf16))(
      out, ldo, x, factor, rows, width);
}

void dot_rows(DType dtype, float* dots, const void* a, const void* b, size_t ld, size_t rows,
              size_t width) {
  (dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(dot_f32) : HWY_DYNAMIC_DISPATCH(dot_bf16))(
      dots, a, b, ld, rows, width);
}

}  // namespace strata::host
#endif
