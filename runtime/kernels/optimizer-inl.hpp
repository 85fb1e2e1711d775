// What the optimizer kernels share: masters in both weight types, and the walk over slices.
// Included once per target by foreach_target, hence the toggled guard.
#if defined(STRATA_KERNELS_OPTIMIZER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_KERNELS_OPTIMIZER_INL_HPP
#undef STRATA_KERNELS_OPTIMIZER_INL_HPP
#else
#define STRATA_KERNELS_OPTIMIZER_INL_HPP
#endif

#include "runtime/kernels/simd-inl.hpp"
#include "runtime/kernels/split_master.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

/// Where fp32 masters live; `kNonFinite` is the smallest |bits| that must be reported.
template <class Weight>
struct Master;

template <>
struct Master<float> {
  static constexpr int32_t kNonFinite = 0x7f800000;
  float* w;
  HWY_INLINE void prefetch(uint64_t i) const { prefetch_group(w + i); }
  template <class D>
  HWY_INLINE hn::VFromD<D> get(D d, uint64_t i) const {
    return load(d, w + i);
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> stream(D d, uint64_t i) const {
    prefetch_ahead(w + i);
    return get(d, i);
  }
  template <class D>
  HWY_INLINE void put(D d, hn::VFromD<D> v, uint64_t i) const {
    store(d, v, w + i);
  }
};

template <>
struct Master<Bf16> {
  static constexpr int32_t kNonFinite = kSplitNonFinite;
  Bf16* hi;
  uint16_t* lo;
  HWY_INLINE void prefetch(uint64_t i) const {
    prefetch_group(hi + i);
    prefetch_group(lo + i);
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> get(D d, uint64_t i) const {
    return load_split(d, hi + i, lo + i);
  }
  template <class D>
  HWY_INLINE hn::VFromD<D> stream(D d, uint64_t i) const {
    prefetch_ahead(hi + i);
    prefetch_ahead(lo + i);
    return get(d, i);
  }
  template <class D>
  HWY_INLINE void put(D d, hn::VFromD<D> v, uint64_t i) const {
    store_split(d, v, hi + i, lo + i);
  }
};

/// |bits| as signed integers, which every target compares; a NaN is larger than infinity.
template <class D>
HWY_INLINE hn::VFromD<hn::RebindToSigned<D>> magnitude(D, hn::VFromD<D> v) {
  return hn::BitCast(hn::RebindToSigned<D>(), hn::Abs(v));
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
