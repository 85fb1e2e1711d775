#include "models/host/activation.hpp"

#include "models/host/row_groups.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/activation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/gelu-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.

template <class D, class T>
HWY_INLINE size_t forward_lanes(D d, T* y, const T* x, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store(d, gelu(d, load(d, x + i)), y + i);
  return i;
}

template <class T>
void forward_range(void* y, const void* x, size_t begin, size_t end) {
  auto* to = static_cast<T*>(y);
  const auto* from = static_cast<const T*>(x);
  forward_lanes(One(), to, from, forward_lanes(Full(), to, from, begin, end), end);
}

void forward_f32(void* y, const void* x, size_t begin, size_t end) {
  forward_range<float>(y, x, begin, end);
}
void forward_bf16(void* y, const void* x, size_t begin, size_t end) {
  forward_range<Bf16>(y, x, begin, end);
}

template <class D, class T>
HWY_INLINE size_t backward_lanes(D d, T* dx, const T* dy, const T* x, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    store(d, hn::Mul(load(d, dy + i), gelu_slope(d, load(d, x + i))), dx + i);
  }
  return i;
}

template <class T>
void backward_range(void* dx, const void* dy, const void* x, size_t begin, size_t end) {
  auto* to = static_cast<T*>(dx);
  const auto* a = static_cast<const T*>(dy);
  const auto* b = static_cast<const T*>(x);
  backward_lanes(One(), to, a, b, backward_lanes(Full(), to, a, b, begin, end), end);
}

void backward_f32(void* dx, const void* dy, const void* x, size_t begin, size_t end) {
  backward_range<float>(dx, dy, x, begin, end);
}
void backward_bf16(void* dx, const void* dy, const void* x, size_t begin, size_t end) {
  backward_range<Bf16>(dx, dy, x, begin, end);
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

void gelu_forward(ThreadPool& pool, DType dtype, void* y, const void* x, size_t count) {
  const auto range =
      dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(forward_f32) : HWY_DYNAMIC_DISPATCH(forward_bf16);
  for_groups(pool, count, kTaskElements,
             [&](size_t, size_t begin, size_t end) { range(y, x, begin, end); });
}

void gelu_backward(ThreadPool& pool, DType dtype, void* dx, const void* dy, const void* x,
                   size_t count) {
  const auto range = dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(backward_f32)
                                         : HWY_DYNAMIC_DISPATCH(backward_bf16);
  for_groups(pool, count, kTaskElements,
             [&](size_t, size_t begin, size_t end) { range(dx, dy, x, begin, end); });
}

}  // namespace strata::host
#endif
