#include "runtime/kernels/optimizer.hpp"
#include "runtime/kernels/slices.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/sgd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "runtime/kernels/optimizer-inl.hpp"

#ifndef STRATA_KERNELS_SGD_CONSTANTS
#define STRATA_KERNELS_SGD_CONSTANTS
namespace strata::kernels {

struct SgdConstants {
  float clip, momentum, lr, decay;
};

}  // namespace strata::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

/// Updates whole vectors of D from element i on; returns where it stopped. Constants
/// are a copy, since stores of float might alias them.
template <bool kMomentum, class D, class Weight, class Grad>
HWY_INLINE uint64_t sgd_lanes(D d, Master<Weight> master, const Grad* grad, float* m,
                              SgdConstants c, uint64_t i, uint64_t end, bool& nonfinite) {
  const uint64_t step = hn::Lanes(d);
  const hn::RebindToSigned<D> di;
  auto worst = hn::Zero(di);
  for (; i + step <= end; i += step) {
    const auto w = master.stream(d, i);
    auto g =
        hn::Add(hn::Mul(stream(d, grad + i), hn::Set(d, c.clip)), hn::Mul(hn::Set(d, c.decay), w));
    if constexpr (kMomentum) {
      g = canonical(d, hn::Add(hn::Mul(hn::Set(d, c.momentum), stream(d, m + i)), g));
      store(d, g, m + i);
    }
    const auto w1 = canonical(d, hn::Sub(w, hn::Mul(hn::Set(d, c.lr), g)));
    worst = hn::Max(worst, magnitude(d, w1));
    master.put(d, w1, i);
  }
  nonfinite |= !hn::AllFalse(di, hn::Gt(worst, hn::Set(di, Master<Weight>::kNonFinite - 1)));
  return i;
}

template <bool kMomentum, class Weight, class Grad>
bool sgd_range(Master<Weight> master, const SgdSlice& s, const SgdConstants& c, uint64_t begin,
               uint64_t end) {
  const auto* grad = static_cast<const Grad*>(s.grad);
  bool nonfinite = false;
  begin = sgd_lanes<kMomentum>(Full(), master, grad, s.m, c, begin, end, nonfinite);
  sgd_lanes<kMomentum>(One(), master, grad, s.m, c, begin, end, nonfinite);
  return nonfinite;
}

template <class Weight, class Grad>
bool sgd_master(Master<Weight> master, const SgdSlice& s, const SgdConstants& c, uint64_t begin,
                uint64_t end) {
  return s.m != nullptr ? sgd_range<true, Weight, Grad>(master, s, c, begin, end)
                        : sgd_range<false, Weight, Grad>(master, s, c, begin, end);
}

bool sgd_block(const SgdSlice& s, DType weight_type, DType grad_type, const SgdConstants& c,
               uint64_t begin, uint64_t end) {
  if (weight_type == DType::f32) {
    const Master<float> master{static_cast<float*>(s.weight)};
    return grad_type == DType::f32 ? sgd_master<float, float>(master, s, c, begin, end)
                                   : sgd_master<float, Bf16>(master, s, c, begin, end);
  }
  const Master<Bf16> master{static_cast<Bf16*>(s.weight), s.remainder};
  return grad_type == DType::f32 ? sgd_master<Bf16, float>(master, s, c, begin, end)
                                 : sgd_master<Bf16, Bf16>(master, s, c, begin, end);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels {

HWY_EXPORT(sgd_block);

void sgd(ThreadPool& pool, std::span<const SgdSlice> slices, DType weight_type, DType grad_type,
         const SgdParams& p, const StepScale* scale, std::atomic<uint32_t>* nonfinite) {
  if (scale->apply == 0) return;
  const auto momentum = static_cast<float>(p.momentum);
  const auto lr = static_cast<float>(p.lr);
  for_slices(pool, slices, [&](const SgdSlice& s, uint64_t begin, uint64_t end) {
    const SgdConstants c{scale->clip, momentum, lr, s.weight_decay};
    const bool bad = HWY_DYNAMIC_DISPATCH(sgd_block)(s, weight_type, grad_type, c, begin, end);
    if (bad && nonfinite != nullptr) nonfinite->store(1, std::memory_order_relaxed);
  });
}

}  // namespace strata::kernels
#endif
