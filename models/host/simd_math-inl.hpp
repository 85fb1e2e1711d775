// Vector mathematics of the model kernels, on top of the loads and stores of runtime/kernels.
// Included once per Highway target by foreach_target, hence the toggled guard.
#if defined(STRATA_MODELS_SIMD_MATH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_MODELS_SIMD_MATH_INL_HPP
#undef STRATA_MODELS_SIMD_MATH_INL_HPP
#else
#define STRATA_MODELS_SIMD_MATH_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "runtime/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using kernels::HWY_NAMESPACE::Full;
using kernels::HWY_NAMESPACE::load;
using kernels::HWY_NAMESPACE::One;
using kernels::HWY_NAMESPACE::store;

constexpr float kLog2e = 1.44269504088896341f;
/// Arguments of `exp2` are kept inside +-kExp2Limit, where results and their inverses are normal.
constexpr float kExp2Limit = 125.0f;

/// 2^t for t <= 127, relative error below 2e-7; t under -kExp2Limit counts as that, NaN stays NaN.
/// Splits t = n + f with f in [-1/2, 1/2]; minimax polynomial for 2^f (error 2.6e-9), exponent by
/// integer addition.
template <class D>
HWY_INLINE hn::VFromD<D> exp2(D d, hn::VFromD<D> t) {
  const hn::RebindToSigned<D> di;
  // The bound comes first: x86 returns the second operand when one is NaN.
  t = hn::Max(hn::Set(d, -kExp2Limit), t);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0f);
  const auto shifted = hn::Add(t, magic);
  const auto f = hn::Sub(t, hn::Sub(shifted, magic));
  auto p = hn::Set(d, 1.55946770e-4f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.34066438e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.61769298e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.55031055e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.40226528e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147215e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

template <class D>
HWY_INLINE float sum_of_lanes(D d, hn::VFromD<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

/// Four running sums, so that the latency of an addition is hidden.
template <class D>
struct Sums {
  using V = hn::VFromD<D>;
  V a, b, c, e;

  explicit HWY_INLINE Sums(D d) : a(hn::Zero(d)), b(a), c(a), e(a) {}
  HWY_INLINE float total(D d) const {
    return sum_of_lanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e)));
  }
};

}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
