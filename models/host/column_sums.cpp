#include "models/host/column_sums.hpp"

#include "models/host/row_groups.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/column_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

template <class D, class T>
HWY_INLINE size_t add_lanes(D d, T* out, const float* sums, size_t groups, size_t stride, size_t i,
                            size_t end) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= end; i += step) {
    auto total = hn::Zero(d);
    for (size_t g = 0; g < groups; ++g) total = hn::Add(total, load(d, sums + g * stride + i));
    store(d, total, out + i);
  }
  return i;
}

template <class T>
void add_columns(void* out, const float* sums, size_t groups, size_t stride, size_t begin,
                 size_t end) {
  auto* to = static_cast<T*>(out);
  const size_t i = add_lanes(Full(), to, sums, groups, stride, begin, end);
  add_lanes(One(), to, sums, groups, stride, i, end);
}

void add_columns_f32(void* out, const float* sums, size_t groups, size_t stride, size_t begin,
                     size_t end) {
  add_columns<float>(out, sums, groups, stride, begin, end);
}
void add_columns_bf16(void* out, const float* sums, size_t groups, size_t stride, size_t begin,
                      size_t end) {
  add_columns<Bf16>(out, sums, groups, stride, begin, end);
}

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(add_columns_f32);
HWY_EXPORT(add_columns_bf16);

void add_groups(ThreadPool& pool, DType dtype, void* out, const float* sums, size_t groups,
                size_t stride, size_t width) {
  const auto columns = dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(add_columns_f32)
                                           : HWY_DYNAMIC_DISPATCH(add_columns_bf16);
  for_groups(pool, width, kTaskColumns, [&](size_t, size_t begin, size_t end) {
    columns(out, sums, groups, stride, begin, end);
  });
}

}  // namespace strata::host
#endif
