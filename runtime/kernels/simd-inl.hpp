// Loads, stores and conversions shared by the Highway kernels. Included once per target by
// foreach_target, hence the toggled guard; only for .cpp files of this folder.
#if defined(STRATA_KERNELS_SIMD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_KERNELS_SIMD_INL_HPP
#undef STRATA_KERNELS_SIMD_INL_HPP
#else
#define STRATA_KERNELS_SIMD_INL_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>

#include "runtime/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Kernels are templates over the tag: whole vectors first, then the tail with one-lane vectors, so
/// the arithmetic is written once.
using Full = hn::ScalableTag<float>;
using One = hn::FixedTag<float, 1>;

template <class D>
using Bits = hn::RebindToUnsigned<D>;
template <class D>
using Halves = hn::Rebind<uint16_t, D>;

/// Asks for what a loop needs about a page later. Hardware prefetchers stop at page boundaries, and
/// with several streams and divisions in flight that cost a sixth of the speed. Beyond the end of
/// an array it does nothing.
template <class T>
HWY_INLINE void prefetch_ahead(const T* p) {
  hwy::Prefetch(p + 1024);
}

/// Elements that `prefetch_group` asks for at a time: a whole number of cache lines of any type.
constexpr uint64_t kGroup = 32;

/// As `prefetch_ahead` for kGroup elements, each line once: from far into the large cache and from
/// near into the small one. What comes from memory at once is limited by the small cache's few
/// pending lines; a kernel that computes for long between its loads needs both.
template <class T>
HWY_INLINE void prefetch_group(const T* p) {
  constexpr size_t kFar = 4096, kNear = 1024, kLine = 64;
  const auto* bytes = reinterpret_cast<const char*>(p);
  for (size_t k = 0; k < kGroup * sizeof(T); k += kLine) {
    __builtin_prefetch(bytes + kFar + k, 0, 2);
    __builtin_prefetch(bytes + kNear + k, 0, 3);
  }
}

/// 16 bits an element, zero-extended to 32.
template <class D>
HWY_INLINE hn::VFromD<Bits<D>> load_halves(D, const uint16_t* p) {
  return hn::PromoteTo(Bits<D>(), hn::LoadU(Halves<D>(), p));
}

/// Stores the lower 16 bits of each element.
template <class D>
HWY_INLINE void store_halves(D, hn::VFromD<Bits<D>> v, uint16_t* p) {
  hn::StoreU(hn::TruncateTo(Halves<D>(), v), Halves<D>(), p);
}

template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::VFromD<D> load(D d, const Bf16* p) {
  return hn::BitCast(d, hn::ShiftLeft<16>(load_halves(d, &p->bits)));
}

/// Loads from a plane that is read from end to end.
template <class D, class T>
HWY_INLINE hn::VFromD<D> stream(D d, const T* p) {
  prefetch_ahead(p);
  return load(d, p);
}

template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> v, float* p) {
  hn::StoreU(v, d, p);
}
/// Nearest, ties to even, as `to_bf16`.
template <class D>
HWY_INLINE void store(D d, hn::VFromD<D> v, Bf16* p) {
  const Bits<D> du;
  const auto u = hn::BitCast(du, v);
  const auto upper = hn::ShiftRight<16>(u);
  const auto odd = hn::And(upper, hn::Set(du, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(du, 0x7fffu)), odd));
  const auto quiet = hn::Or(upper, hn::Set(du, 0x40u));
  const auto nan = hn::RebindMask(du, hn::IsNaN(v));
  store_halves(d, hn::IfThenElse(nan, quiet, rounded), &p->bits);
}

/// Replaces every NaN by 0x7fc00000: the payload of an operation on two NaNs depends on the order
/// of operands, which compilers are free to swap, and CUDA has its own.
template <class D>
HWY_INLINE hn::VFromD<D> canonical(D d, hn::VFromD<D> v) {
  const auto nan = hn::BitCast(d, hn::Set(Bits<D>(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

/// `strata::kernels::join` and `split`, a vector at a time.
template <class D>
HWY_INLINE hn::VFromD<D> load_split(D d, const Bf16* hi, const uint16_t* lo) {
  const auto lower = load_halves(d, lo);
  const auto upper = hn::Sub(load_halves(d, &hi->bits), hn::ShiftRight<15>(lower));
  return hn::BitCast(d, hn::Or(hn::ShiftLeft<16>(upper), lower));
}
template <class D>
HWY_INLINE void store_split(D d, hn::VFromD<D> v, Bf16* hi, uint16_t* lo) {
  const Bits<D> du;
  const auto u = hn::BitCast(du, v);
  store_halves(d, hn::ShiftRight<16>(hn::Add(u, hn::Set(du, 0x8000u))), &hi->bits);
  store_halves(d, u, lo);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
