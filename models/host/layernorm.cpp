#include "models/host/layernorm.hpp"

#include <cmath>
#include <cstring>

#include "models/host/column_sums.hpp"
#include "models/host/row_groups.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/layernorm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.

/// Adds the sum of (x - shift)^Power to `total`.
template <int Power, class D, class T>
HWY_INLINE size_t moment_lanes(D d, const T* x, float shift, float& total, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto minus = hn::Set(d, shift);
  Sums<D> s(d);
  const auto add = [&](hn::VFromD<D>& sum, size_t at) HWY_ATTR {
    const auto v = hn::Sub(load(d, x + at), minus);
    sum = Power == 1 ? hn::Add(sum, v) : hn::MulAdd(v, v, sum);
  };
  for (; i + 4 * step <= n; i += 4 * step) {
    add(s.a, i);
    add(s.b, i + step);
    add(s.c, i + 2 * step);
    add(s.e, i + 3 * step);
  }
  for (; i + step <= n; i += step) add(s.a, i);
  total += s.total(d);
  return i;
}

template <int Power, class T>
float moment(const T* x, float shift, size_t n) {
  float total = 0;
  moment_lanes<Power>(One(), x, shift, total, moment_lanes<Power>(Full(), x, shift, total, 0, n),
                      n);
  return total / static_cast<float>(n);
}

template <class D, class T>
HWY_INLINE size_t normalise_lanes(D d, T* y, const T* x, const T* gamma, const T* beta, float mean,
                                  float rstd, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto m = hn::Set(d, mean);
  const auto r = hn::Set(d, rstd);
  for (; i + step <= n; i += step) {
    const auto hat = hn::Mul(hn::Sub(load(d, x + i), m), r);
    store(d, hn::MulAdd(hat, load(d, gamma + i), load(d, beta + i)), y + i);
  }
  return i;
}

template <class T>
void forward_rows(const LayernormForward& p, size_t begin, size_t end) {
  const size_t n = p.width;
  const auto* gamma = static_cast<const T*>(p.gamma);
  const auto* beta = static_cast<const T*>(p.beta);
  for (size_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * n;
    T* y = static_cast<T*>(p.y) + row * n;
    const float mean = moment<1>(x, 0.0f, n);
    const float rstd = 1.0f / std::sqrt(moment<2>(x, mean, n) + p.eps);
    p.mean[row] = mean;
    p.rstd[row] = rstd;
    const size_t i = normalise_lanes(Full(), y, x, gamma, beta, mean, rstd, 0, n);
    normalise_lanes(One(), y, x, gamma, beta, mean, rstd, i, n);
  }
}

void forward_f32(const LayernormForward& p, size_t begin, size_t end) {
  forward_rows<float>(p, begin, end);
}
void forward_bf16(const LayernormForward& p, size_t begin, size_t end) {
  forward_rows<Bf16>(p, begin, end);
}

template <class T>
struct Row {
  const T* dy;
  const T* x;
  const T* gamma;
  float mean, rstd;
};

/// Adds one row to dgamma and dbeta, and to the two sums that dx needs: of dy * gamma (`plain`) and
/// of dy * gamma * hat (`hats`).
template <class D, class T>
HWY_INLINE size_t gather_lanes(D d, const Row<T>& r, float* dgamma, float* dbeta, float& plain,
                               float& hats, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto m = hn::Set(d, r.mean);
  const auto s = hn::Set(d, r.rstd);
  Sums<D> sums(d);
  const auto add = [&](hn::VFromD<D>& sum, hn::VFromD<D>& sum_hat, size_t at) HWY_ATTR {
    const auto hat = hn::Mul(hn::Sub(load(d, r.x + at), m), s);
    const auto dy = load(d, r.dy + at);
    const auto g = hn::Mul(dy, load(d, r.gamma + at));
    sum = hn::Add(sum, g);
    sum_hat = hn::MulAdd(g, hat, sum_hat);
    store(d, hn::MulAdd(dy, hat, load(d, dgamma + at)), dgamma + at);
    store(d, hn::Add(dy, load(d, dbeta + at)), dbeta + at);
  };
  for (; i + 2 * step <= n; i += 2 * step) {
    add(sums.a, sums.c, i);
    add(sums.b, sums.e, i + step);
  }
  for (; i + step <= n; i += step) add(sums.a, sums.c, i);
  plain += sum_of_lanes(d, hn::Add(sums.a, sums.b));
  hats += sum_of_lanes(d, hn::Add(sums.c, sums.e));
  return i;
}

template <class D, class T>
HWY_INLINE size_t input_lanes(D d, const Row<T>& r, T* dx, const T* residual, float mean_plain,
                              float mean_hats, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto m = hn::Set(d, r.mean);
  const auto s = hn::Set(d, r.rstd);
  const auto a = hn::Set(d, mean_plain);
  const auto b = hn::Set(d, mean_hats);
  for (; i + step <= n; i += step) {
    const auto hat = hn::Mul(hn::Sub(load(d, r.x + i), m), s);
    const auto g = hn::Mul(load(d, r.dy + i), load(d, r.gamma + i));
    const auto inner = hn::NegMulAdd(hat, b, hn::Sub(g, a));
    const auto dx_i = residual ? hn::MulAdd(inner, s, load(d, residual + i)) : hn::Mul(inner, s);
    store(d, dx_i, dx + i);
  }
  return i;
}

/// `sums` receives this group's dgamma [width], then dbeta [width].
template <class T>
void backward_rows(const LayernormBackward& p, float* sums, size_t begin, size_t end) {
  const size_t n = p.width;
  float* dgamma = sums;
  float* dbeta = sums + n;
  std::memset(sums, 0, 2 * n * sizeof(float));
  for (size_t row = begin; row < end; ++row) {
    const Row<T> r{static_cast<const T*>(p.dy) + row * n, static_cast<const T*>(p.x) + row * n,
                   static_cast<const T*>(p.gamma), p.mean[row], p.rstd[row]};
    float plain = 0, hats = 0;
    const size_t i = gather_lanes(Full(), r, dgamma, dbeta, plain, hats, 0, n);
    gather_lanes(One(), r, dgamma, dbeta, plain, hats, i, n);
    plain /= static_cast<float>(n);
    hats /= static_cast<float>(n);
    T* dx = static_cast<T*>(p.dx) + row * n;
    const T* residual = p.residual ? static_cast<const T*>(p.residual) + row * n : nullptr;
    const size_t j = input_lanes(Full(), r, dx, residual, plain, hats, 0, n);
    input_lanes(One(), r, dx, residual, plain, hats, j, n);
  }
}

void backward_f32(const LayernormBackward& p, float* sums, size_t begin, size_t end) {
  backward_rows<float>(p, sums, begin, end);
}
void backward_bf16(const LayernormBackward& p, float* sums, size_t begin, size_t end) {
  backward_rows<Bf16>(p, sums, begin, end);
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

void layernorm_forward(ThreadPool& pool, const LayernormForward& args) {
  const auto rows = args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(forward_f32)
                                             : HWY_DYNAMIC_DISPATCH(forward_bf16);
  for_groups(pool, args.rows, kTaskRows,
             [&](size_t, size_t begin, size_t end) { rows(args, begin, end); });
}

size_t layernorm_backward_scratch(size_t rows, size_t width) {
  return groups_of(rows, kSumRows) * 2 * width * sizeof(float);
}

void layernorm_backward(ThreadPool& pool, const LayernormBackward& args) {
  const auto rows = args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(backward_f32)
                                             : HWY_DYNAMIC_DISPATCH(backward_bf16);
  auto* sums = static_cast<float*>(args.scratch);
  const size_t stride = 2 * args.width;
  for_groups(pool, args.rows, kSumRows, [&](size_t group, size_t begin, size_t end) {
    rows(args, sums + group * stride, begin, end);
  });
  const size_t groups = groups_of(args.rows, kSumRows);
  add_groups(pool, args.dtype, args.dgamma, sums, groups, stride, args.width);
  add_groups(pool, args.dtype, args.dbeta, sums + args.width, groups, stride, args.width);
}

}  // namespace strata::host
#endif
