#include "runtime/kernels/stream_probe.hpp"

#include <algorithm>

#include "runtime/kernels/slices.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/stream_probe.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "runtime/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

/// Adds to `count` elements, a multiple of the vector's, `mask` of them anded with `key`, or `key`.
template <StreamStores kStores, class T>
HWY_INLINE void add_to(T* p, const T* mask, uint32_t key, uint64_t count) {
  const hn::ScalableTag<T> d;
  const auto keys = hn::Set(d, static_cast<T>(key));
  for (uint64_t k = 0; k < count; k += hn::Lanes(d)) {
    const auto x = mask == nullptr ? keys : hn::And(hn::LoadU(d, mask + k), keys);
    const auto sum = hn::Add(hn::LoadU(d, p + k), x);
    if constexpr (kStores == StreamStores::non_temporal) {
      hn::Stream(sum, d, p + k);
    } else {
      hn::StoreU(sum, d, p + k);
    }
  }
}

template <class T>
bool at_line(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 64 == 0;
}

/// The arrays of a slice as integers.
template <class T>
struct Arrays {
  T* weight;
  T* remainder;  // null: there is none
  const T* grad;
  uint32_t* m;
  uint32_t* v;
};

template <StreamStores kStores, class T>
void stream_range(const Arrays<T>& s, uint32_t key, uint64_t i, uint64_t end) {
  const Arrays<T> a = s;
  const uint64_t group = std::max<uint64_t>(kGroup, hn::Lanes(hn::ScalableTag<T>()));
  for (; i + group <= end; i += group) {
    if constexpr (kStores == StreamStores::prefetched) {
      prefetch_group(a.weight + i);
      if constexpr (sizeof(T) == 2) prefetch_group(a.remainder + i);
      prefetch_group(a.grad + i);
      prefetch_group(a.m + i);
      prefetch_group(a.v + i);
    }
    add_to<kStores>(a.weight + i, a.grad + i, key, group);
    if constexpr (sizeof(T) == 2) {
      add_to<kStores>(a.remainder + i, static_cast<const T*>(nullptr), key, group);
    }
    add_to<kStores>(a.m + i, static_cast<const uint32_t*>(nullptr), key, group);
    add_to<kStores>(a.v + i, static_cast<const uint32_t*>(nullptr), key, group);
  }
  for (; i < end; ++i) {
    a.weight[i] = static_cast<T>(a.weight[i] + (a.grad[i] & static_cast<T>(key)));
    if constexpr (sizeof(T) == 2) a.remainder[i] = static_cast<T>(a.remainder[i] + key);
    a.m[i] += key;
    a.v[i] += key;
  }
}

template <class T>
void stream_slice(const AdamWSlice& s, uint32_t key, StreamStores stores, uint64_t begin,
                  uint64_t end) {
  const Arrays<T> a{static_cast<T*>(s.weight), reinterpret_cast<T*>(s.remainder),
                    static_cast<const T*>(s.grad), reinterpret_cast<uint32_t*>(s.m),
                    reinterpret_cast<uint32_t*>(s.v)};
  // At the block's begin, which a slice of any size can put anywhere.
  const bool lines = at_line(a.weight + begin) &&
                     (sizeof(T) == 4 || at_line(a.remainder + begin)) && at_line(a.m + begin) &&
                     at_line(a.v + begin);
  if (stores == StreamStores::non_temporal && lines) {
    stream_range<StreamStores::non_temporal>(a, key, begin, end);
    hwy::FlushStream();
  } else if (stores == StreamStores::prefetched) {
    stream_range<StreamStores::prefetched>(a, key, begin, end);
  } else {
    stream_range<StreamStores::temporal>(a, key, begin, end);
  }
}

void stream_block(const AdamWSlice& s, DType type, uint32_t key, StreamStores stores,
                  uint64_t begin, uint64_t end) {
  if (type == DType::f32) {
    stream_slice<uint32_t>(s, key, stores, begin, end);
  } else {
    stream_slice<uint16_t>(s, key, stores, begin, end);
  }
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels {

HWY_EXPORT(stream_block);

void stream_in_place(ThreadPool& pool, std::span<const AdamWSlice> slices, DType type, uint32_t key,
                     StreamStores stores) {
  for_slices(pool, slices, [&](const AdamWSlice& s, uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(stream_block)(s, type, key, stores, begin, end);
  });
}

}  // namespace strata::kernels
#endif
