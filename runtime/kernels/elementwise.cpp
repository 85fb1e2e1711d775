#include "runtime/kernels/elementwise.hpp"

#include <cstring>

#include "runtime/kernels/blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "runtime/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.

template <class D, class Dst, class Src>
HWY_INLINE uint64_t cast_lanes(D d, Dst* dst, const Src* src, uint64_t i, uint64_t n) {
  const uint64_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store(d, stream(d, src + i), dst + i);
  return i;
}

template <class Dst, class Src>
void cast_block(void* dst, const void* src, uint64_t begin, uint64_t end) {
  auto* to = static_cast<Dst*>(dst);
  const auto* from = static_cast<const Src*>(src);
  cast_lanes(One(), to, from, cast_lanes(Full(), to, from, begin, end), end);
}

void cast_f32_bf16(void* dst, const void* src, uint64_t begin, uint64_t end) {
  cast_block<Bf16, float>(dst, src, begin, end);
}
void cast_bf16_f32(void* dst, const void* src, uint64_t begin, uint64_t end) {
  cast_block<float, Bf16>(dst, src, begin, end);
}

template <class D, class Acc, class X>
HWY_INLINE uint64_t add_lanes(D d, Acc* acc, const X* x, uint64_t i, uint64_t n) {
  const uint64_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    store(d, canonical(d, hn::Add(stream(d, acc + i), stream(d, x + i))), acc + i);
  }
  return i;
}

template <class Acc, class X>
void add_block(void* acc, const void* x, uint64_t begin, uint64_t end) {
  auto* to = static_cast<Acc*>(acc);
  const auto* from = static_cast<const X*>(x);
  add_lanes(One(), to, from, add_lanes(Full(), to, from, begin, end), end);
}

void add_f32_f32(void* acc, const void* x, uint64_t begin, uint64_t end) {
  add_block<float, float>(acc, x, begin, end);
}
void add_f32_bf16(void* acc, const void* x, uint64_t begin, uint64_t end) {
  add_block<float, Bf16>(acc, x, begin, end);
}
void add_bf16_f32(void* acc, const void* x, uint64_t begin, uint64_t end) {
  add_block<Bf16, float>(acc, x, begin, end);
}
void add_bf16_bf16(void* acc, const void* x, uint64_t begin, uint64_t end) {
  add_block<Bf16, Bf16>(acc, x, begin, end);
}

template <class D>
HWY_INLINE uint64_t split_lanes(D d, const float* master, Bf16* hi, uint16_t* lo, uint64_t i,
                                uint64_t n) {
  const uint64_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store_split(d, stream(d, master + i), hi + i, lo + i);
  return i;
}
void split_block(const float* master, Bf16* hi, uint16_t* lo, uint64_t begin, uint64_t end) {
  split_lanes(One(), master, hi, lo, split_lanes(Full(), master, hi, lo, begin, end), end);
}

template <class D>
HWY_INLINE uint64_t join_lanes(D d, const Bf16* hi, const uint16_t* lo, float* master, uint64_t i,
                               uint64_t n) {
  const uint64_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store(d, load_split(d, hi + i, lo + i), master + i);
  return i;
}
void join_block(const Bf16* hi, const uint16_t* lo, float* master, uint64_t begin, uint64_t end) {
  join_lanes(One(), hi, lo, master, join_lanes(Full(), hi, lo, master, begin, end), end);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels {

HWY_EXPORT(cast_f32_bf16);
HWY_EXPORT(cast_bf16_f32);
HWY_EXPORT(add_f32_f32);
HWY_EXPORT(add_f32_bf16);
HWY_EXPORT(add_bf16_f32);
HWY_EXPORT(add_bf16_bf16);
HWY_EXPORT(split_block);
HWY_EXPORT(join_block);

void store_cast(ThreadPool& pool, void* dst, DType dst_type, const void* src, DType src_type,
                uint64_t n) {
  if (dst_type == src_type) {
    if (dst == src) return;
    for_blocks(pool, n, [=, size = size_of(dst_type)](uint64_t begin, uint64_t end) {
      std::memcpy(static_cast<std::byte*>(dst) + begin * size,
                  static_cast<const std::byte*>(src) + begin * size, (end - begin) * size);
    });
    return;
  }
  for_blocks(pool, n, [=](uint64_t begin, uint64_t end) {
    if (dst_type == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(cast_f32_bf16)(dst, src, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(cast_bf16_f32)(dst, src, begin, end);
    }
  });
}

void accumulate(ThreadPool& pool, void* acc, DType acc_type, const void* x, DType x_type,
                uint64_t n) {
  for_blocks(pool, n, [=](uint64_t begin, uint64_t end) {
    if (acc_type == DType::f32) {
      if (x_type == DType::f32) {
        HWY_DYNAMIC_DISPATCH(add_f32_f32)(acc, x, begin, end);
      } else {
        HWY_DYNAMIC_DISPATCH(add_f32_bf16)(acc, x, begin, end);
      }
    } else if (x_type == DType::f32) {
      HWY_DYNAMIC_DISPATCH(add_bf16_f32)(acc, x, begin, end);
    } else {
      HWY_DYNAMIC_DISPATCH(add_bf16_bf16)(acc, x, begin, end);
    }
  });
}

void split(ThreadPool& pool, const float* master, Bf16* hi, uint16_t* lo, uint64_t n) {
  for_blocks(pool, n, [=](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(split_block)(master, hi, lo, begin, end);
  });
}

void join(ThreadPool& pool, const Bf16* hi, const uint16_t* lo, float* master, uint64_t n) {
  for_blocks(pool, n, [=](uint64_t begin, uint64_t end) {
    HWY_DYNAMIC_DISPATCH(join_block)(hi, lo, master, begin, end);
  });
}

}  // namespace strata::kernels
#endif
