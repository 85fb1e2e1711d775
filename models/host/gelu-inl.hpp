// The tanh approximation of GELU and its derivative on vectors.
// Included once per Highway target by foreach_target, hence the toggled guard.
#if defined(STRATA_MODELS_GELU_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_MODELS_GELU_INL_HPP
#undef STRATA_MODELS_GELU_INL_HPP
#else
#define STRATA_MODELS_GELU_INL_HPP
#endif

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {

// gelu(x) = x * s with s = 1 / (1 + e), e = exp(-2 u) = 2^(x * (kLinear + kCubic * x^2)): dividing
// by 1 + e keeps the relative accuracy in the negative tail that 1 + tanh(u) would cancel away.
constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kCube = 0.044715;
constexpr float kLinear = static_cast<float>(-2 * kSqrt2OverPi * 1.44269504088896340736);
constexpr float kCubic = static_cast<float>(-2 * kSqrt2OverPi * 1.44269504088896340736 * kCube);
// Derivative of 2 u.
constexpr float kSlope = static_cast<float>(2 * kSqrt2OverPi);
constexpr float kSlopeSquare = static_cast<float>(2 * kSqrt2OverPi * 3 * kCube);

template <class D>
HWY_INLINE hn::VFromD<D> exp_minus_2u(D d, hn::VFromD<D> x, hn::VFromD<D> square) {
  const auto t = hn::Mul(x, hn::MulAdd(square, hn::Set(d, kCubic), hn::Set(d, kLinear)));
  return exp2(d, hn::Min(t, hn::Set(d, kExp2Limit)));
}

template <class D>
HWY_INLINE hn::VFromD<D> gelu(D d, hn::VFromD<D> x) {
  const auto e = exp_minus_2u(d, x, hn::Mul(x, x));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

template <class D>
HWY_INLINE hn::VFromD<D> gelu_slope(D d, hn::VFromD<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto square = hn::Mul(x, x);
  const auto e = exp_minus_2u(d, x, square);
  const auto s = hn::Div(one, hn::Add(one, e));
  const auto slope = hn::MulAdd(square, hn::Set(d, kSlopeSquare), hn::Set(d, kSlope));
  // s + x * s * (1 - s) * (2 u)', with 1 - s = e * s.
  return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Mul(e, s)), slope, s);
}

}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
