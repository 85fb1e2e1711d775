#include <algorithm>

#include "runtime/kernels/optimizer.hpp"
#include "runtime/kernels/slices.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/adamw.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "runtime/kernels/optimizer-inl.hpp"

#ifndef STRATA_KERNELS_ADAMW_CONSTANTS
#define STRATA_KERNELS_ADAMW_CONSTANTS
namespace strata::kernels {

/// The scalars of one slice, each rounded to fp32 once.
struct AdamWConstants {
  float clip, beta1, rest1, beta2, rest2, inv_bias2, eps, step, decay;
};

}  // namespace strata::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

/// Updates the vector of D from element i on; sets `nonfinite` when its masters must be reported.
template <class D, class Weight, class Grad>
HWY_INLINE void adamw_vector(D d, Master<Weight> master, const Grad* grad, float* m, float* v,
                             const AdamWConstants& c, uint64_t i, bool& nonfinite) {
  const auto g = hn::Mul(load(d, grad + i), hn::Set(d, c.clip));
  auto m1 = hn::Add(hn::Mul(hn::Set(d, c.beta1), load(d, m + i)), hn::Mul(hn::Set(d, c.rest1), g));
  auto v1 = hn::Add(hn::Mul(hn::Set(d, c.beta2), load(d, v + i)),
                    hn::Mul(hn::Mul(hn::Set(d, c.rest2), g), g));
  const auto root = hn::Sqrt(hn::Mul(v1, hn::Set(d, c.inv_bias2)));
  const auto change = hn::Div(hn::Mul(hn::Set(d, c.step), m1), hn::Add(root, hn::Set(d, c.eps)));
  auto w1 = hn::Sub(hn::Mul(master.get(d, i), hn::Set(d, c.decay)), change);
  // Where m or v is NaN so is w: one test, hardly ever true, saves replacing NaN in all three.
  const hn::RebindToSigned<D> di;
  const auto bad = hn::Gt(magnitude(d, w1), hn::Set(di, Master<Weight>::kNonFinite - 1));
  if (HWY_UNLIKELY(!hn::AllFalse(di, bad))) {
    nonfinite = true;
    m1 = canonical(d, m1);
    v1 = canonical(d, v1);
    w1 = canonical(d, w1);
  }
  store(d, m1, m + i);
  store(d, v1, v + i);
  master.put(d, w1, i);
}

/// Constants are a copy, since stores of float might alias them.
template <class Weight, class Grad>
bool adamw_range(Master<Weight> master, const AdamWSlice& s, AdamWConstants c, uint64_t i,
                 uint64_t end) {
  const auto* grad = static_cast<const Grad*>(s.grad);
  float* const m = s.m;
  float* const v = s.v;
  const Full d;
  const uint64_t step = hn::Lanes(d), group = std::max<uint64_t>(kGroup, step);
  bool nonfinite = false;
  for (; i + group <= end; i += group) {
    master.prefetch(i);
    prefetch_group(grad + i);
    prefetch_group(m + i);
    prefetch_group(v + i);
    for (uint64_t k = 0; k < group; k += step) {
      adamw_vector(d, master, grad, m, v, c, i + k, nonfinite);
    }
  }
  for (; i + step <= end; i += step) adamw_vector(d, master, grad, m, v, c, i, nonfinite);
  for (; i < end; ++i) adamw_vector(One(), master, grad, m, v, c, i, nonfinite);
  return nonfinite;
}

bool adamw_block(const AdamWSlice& s, DType weight_type, DType grad_type, const AdamWConstants& c,
                 uint64_t begin, uint64_t end) {
  if (weight_type == DType::f32) {
    const Master<float> master{static_cast<float*>(s.weight)};
    return grad_type == DType::f32 ? adamw_range<float, float>(master, s, c, begin, end)
                                   : adamw_range<float, Bf16>(master, s, c, begin, end);
  }
  const Master<Bf16> master{static_cast<Bf16*>(s.weight), s.remainder};
  return grad_type == DType::f32 ? adamw_range<Bf16, float>(master, s, c, begin, end)
                                 : adamw_range<Bf16, Bf16>(master, s, c, begin, end);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels {

HWY_EXPORT(adamw_block);

void adamw(ThreadPool& pool, std::span<const AdamWSlice> slices, DType weight_type, DType grad_type,
           const AdamWParams& p, const StepScale* scale, std::atomic<uint32_t>* nonfinite) {
  if (scale->apply == 0) return;
  AdamWConstants shared;
  shared.clip = scale->clip;
  shared.beta1 = static_cast<float>(p.beta1);
  shared.rest1 = static_cast<float>(1.0 - p.beta1);
  shared.beta2 = static_cast<float>(p.beta2);
  shared.rest2 = static_cast<float>(1.0 - p.beta2);
  shared.inv_bias2 = scale->inv_bias2;
  shared.eps = static_cast<float>(p.eps);
  shared.step = static_cast<float>(p.lr * scale->inv_bias1);
  for_slices(pool, slices, [&](const AdamWSlice& s, uint64_t begin, uint64_t end) {
    AdamWConstants c = shared;
    c.decay = static_cast<float>(1.0 - p.lr * s.weight_decay);
    const bool bad = HWY_DYNAMIC_DISPATCH(adamw_block)(s, weight_type, grad_type, c, begin, end);
    if (bad && nonfinite != nullptr) nonfinite->store(1, std::memory_order_relaxed);
  });
}

double bias_correction(double beta, uint64_t step) {
  double power = 1;
  for (; step != 0; step >>= 1) {
    if (step & 1) power *= beta;
    beta *= beta;
  }
  return 1 - power;
}

}  // namespace strata::kernels
#endif
