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

// Probabilities and their gradients are rounded for one product only: to nearest with ties away
// from zero, half the work of ties to even. NaN needs no check: all inputs come from bf16 values
// here, and the payload of a NaN among them cannot carry into the sign.
template <class D>
HWY_INLINE void put(D d, hn::VFromD<D> v, Bf16* p) {
  const hn::RebindToUnsigned<D> du;
  const auto rounded = hn::Add(hn::BitCast(du, v), hn::Set(du, 0x8000u));
  kernels::HWY_NAMESPACE::store_halves(d, hn::ShiftRight<16>(rounded), &p->bits);
}
template <class D>
HWY_INLINE void put(D d, hn::VFromD<D> v, float* p) {
  store(d, v, p);
}

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
    put(d, e0, p + i);
    put(d, e1, p + i + step);
  }
  for (; i < seen && i + step <= n; i += step) {
    const auto e = exp2(d, hn::MulSub(load(d, s + i), f, c));
    const auto kept = hn::IfThenElseZero(hn::FirstN(d, seen - i), e);
    sums.c = hn::Add(sums.c, kept);
    put(d, kept, p + i);
  }
  sum += sums.total(d);
  for (; i + step <= n && i >= seen; i += step) put(d, hn::Zero(d), p + i);
  return i;
}

/// Rows whose maxima are found before their exponentials, so that no row waits for its own.
constexpr size_t kBatch = 8;

template <class T>
void forward_block(const SoftmaxForward& a) {
  const float factor = a.scale * kLog2e;
  const auto seen = [&](size_t r) { return a.first_row + r + 1; };
  for (size_t begin = 0; begin < a.rows; begin += kBatch) {
    const size_t end = std::min(begin + kBatch, a.rows);
    float max[kBatch], sum[kBatch];
    for (size_t r = begin; r < end; ++r) {
      const float* s = a.scores + r * a.cols;
      float& m = max[r - begin] = kLowest;
      max_lanes(One(), s, seen(r), m, max_lanes(Full(), s, seen(r), m, 0, a.cols), seen(r));
    }
    for (size_t r = begin; r < end; ++r) {
      const float* s = a.scores + r * a.cols;
      T* p = static_cast<T*>(a.p) + r * a.cols;
      const float shift = max[r - begin] * factor;
      float& total = sum[r - begin] = 0;
      const size_t i = exp_lanes(Full(), p, s, factor, shift, seen(r), total, 0, a.cols);
      exp_lanes(One(), p, s, factor, shift, seen(r), total, i, a.cols);
    }
    for (size_t r = begin; r < end; ++r) {
      a.inverse[r] = 1.0f / sum[r - begin];
      const double log_sum = std::log(static_cast<double>(sum[r - begin]));
      a.lse[r] = max[r - begin] * a.scale + static_cast<float>(log_sum);
    }
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
  const float* shift;
  const float* delta;
  float factor;

  /// The probabilities and score gradients of the vector at i, before masking.
  HWY_INLINE void at(D d, size_t i, hn::VFromD<D>& prob, hn::VFromD<D>& grad) const {
    prob = exp2(d, hn::MulSub(load(d, scores + i), hn::Set(d, factor), load(d, shift + i)));
    grad = hn::Mul(prob, hn::Sub(load(d, dp + i), load(d, delta + i)));
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
    put(d, prob, row.p + i);
    put(d, grad, row.ds + i);
  }
  for (; i + step <= n; i += step) {
    hn::VFromD<D> prob, grad;
    row.at(d, i, prob, grad);
    put(d, prob, row.p + i);
    put(d, grad, row.ds + i);
  }
  return i;
}

template <class T>
void backward_block(const SoftmaxBackward& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const size_t at = r * a.cols;
    T* p = static_cast<T*>(a.p) + at;
    T* ds = static_cast<T*>(a.ds) + at;
    const BackwardRow<Full, T> full{p,       ds,      a.scores + at,   a.dp + at,
                                    a.shift, a.delta, a.scale * kLog2e};
    const BackwardRow<One, T> one{p,       ds,      a.scores + at,   a.dp + at,
                                  a.shift, a.delta, a.scale * kLog2e};
    backward_lanes(One(), one, r, backward_lanes(Full(), full, r, 0, a.cols), a.cols);
  }
}

void backward_f32(const SoftmaxBackward& a) { backward_block<float>(a); }
void backward_bf16(const SoftmaxBackward& a) { backward_block<Bf16>(a); }

/// Asks for a row to come, which is too far away for the hardware to fetch ahead.
template <int ForWriting, class T>
HWY_INLINE void prefetch_row(const T* row, size_t width) {
  constexpr size_t kLine = 64 / sizeof(T);
  for (size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, ForWriting);
}
constexpr size_t kAhead = 8;  // rows

template <class D, class T>
HWY_INLINE size_t scale_lanes(D d, T* out, const float* x, float factor, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    store(d, hn::Mul(load(d, x + i), hn::Set(d, factor)), out + i);
  }
  return i;
}

template <class T>
void scale_block(void* out, size_t ldo, const float* x, const float* factor, float common,
                 size_t rows, size_t width) {
  for (size_t r = 0; r < rows; ++r) {
    T* to = static_cast<T*>(out) + r * ldo;
    const float* from = x + r * width;
    prefetch_row<1>(to + kAhead * ldo, width);
    const float f = factor ? factor[r] : common;
    scale_lanes(One(), to, from, f, scale_lanes(Full(), to, from, f, 0, width), width);
  }
}

void scale_f32(void* out, size_t ldo, const float* x, const float* factor, float common,
               size_t rows, size_t width) {
  scale_block<float>(out, ldo, x, factor, common, rows, width);
}
void scale_bf16(void* out, size_t ldo, const float* x, const float* factor, float common,
                size_t rows, size_t width) {
  scale_block<Bf16>(out, ldo, x, factor, common, rows, width);
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
    prefetch_row<0>(x + kAhead * ld, width);
    prefetch_row<0>(y + kAhead * ld, width);
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
                float common, size_t rows, size_t width) {
  (dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(scale_f32) : HWY_DYNAMIC_DISPATCH(scale_bf16))(
      out, ldo, x, factor, common, rows, width);
}

void shift_rows(float* shift, const float* lse, size_t rows) {
  for (size_t r = 0; r < rows; ++r) shift[r] = lse[r] * 1.44269504088896341f;
}

void dot_rows(DType dtype, float* dots, const void* a, const void* b, size_t ld, size_t rows,
              size_t width) {
  (dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(dot_f32) : HWY_DYNAMIC_DISPATCH(dot_bf16))(
      dots, a, b, ld, rows, width);
}

}  // namespace strata::host
#endif
