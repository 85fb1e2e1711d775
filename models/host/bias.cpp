#include "models/host/bias.hpp"

#include <cstring>

#include "models/host/column_sums.hpp"
#include "models/host/row_groups.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/bias.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.

/// Rows added in one pass over the partial sums, which then cost little to load and store.
constexpr size_t kStripe = 8;

template <class D, class T>
HWY_INLINE size_t sum_lanes(D d, float* sums, const T* dy, size_t rows, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    auto total = load(d, sums + i);
    if (rows == kStripe) {
      const auto row = [&](size_t r) HWY_ATTR { return load(d, dy + r * n + i); };
      const auto low = hn::Add(hn::Add(row(0), row(1)), hn::Add(row(2), row(3)));
      const auto high = hn::Add(hn::Add(row(4), row(5)), hn::Add(row(6), row(7)));
      total = hn::Add(total, hn::Add(low, high));
    } else {
      for (size_t r = 0; r < rows; ++r) total = hn::Add(total, load(d, dy + r * n + i));
    }
    store(d, total, sums + i);
  }
  return i;
}

template <class T>
void sum_rows(float* sums, const void* dy, size_t width, size_t begin, size_t end) {
  std::memset(sums, 0, width * sizeof(float));
  for (size_t row = begin; row < end; row += kStripe) {
    const T* from = static_cast<const T*>(dy) + row * width;
    const size_t rows = std::min(kStripe, end - row);
    sum_lanes(One(), sums, from, rows, sum_lanes(Full(), sums, from, rows, 0, width), width);
  }
}

void sum_f32(float* sums, const void* dy, size_t width, size_t begin, size_t end) {
  sum_rows<float>(sums, dy, width, begin, end);
}
void sum_bf16(float* sums, const void* dy, size_t width, size_t begin, size_t end) {
  sum_rows<Bf16>(sums, dy, width, begin, end);
}

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_bf16);

size_t bias_gradient_scratch(size_t rows, size_t width) {
  return groups_of(rows, kSumRows) * width * sizeof(float);
}

void bias_gradient(ThreadPool& pool, DType dtype, void* dbias, const void* dy, size_t rows,
                   size_t width, void* scratch) {
  const auto sum =
      dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(sum_f32) : HWY_DYNAMIC_DISPATCH(sum_bf16);
  auto* sums = static_cast<float*>(scratch);
  for_groups(pool, rows, kSumRows, [&](size_t group, size_t begin, size_t end) {
    sum(sums + group * width, dy, width, begin, end);
  });
  add_groups(pool, dtype, dbias, sums, groups_of(rows, kSumRows), width, width);
}

}  // namespace strata::host
#endif
