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

template <class D, class T>
HWY_INLINE size_t add_lanes(D d, T* r, const T* x, const T* y, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store(d, hn::Add(load(d, x + i), load(d, y + i)), r + i);
  return i;
}

template <class D, class T>
HWY_INLINE size_t add_lanes(D d, T* r, const T* x, const T* y, const T* z, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) {
    store(d, hn::Add(hn::Add(load(d, x + i), load(d, y + i)), load(d, z + i)), r + i);
  }
  return i;
}

template <class T>
void add_range(void* r, const void* x, const void* y, size_t begin, size_t end) {
  auto* to = static_cast<T*>(r);
  const auto* a = static_cast<const T*>(x);
  const auto* b = static_cast<const T*>(y);
  add_lanes(One(), to, a, b, add_lanes(Full(), to, a, b, begin, end), end);
}

void add_f32(void* r, const void* x, const void* y, size_t begin, size_t end) {
  add_range<float>(r, x, y, begin, end);
}
void add_bf16(void* r, const void* x, const void* y, size_t begin, size_t end) {
  add_range<Bf16>(r, x, y, begin, end);
}

template <class T>
void bias_rows(const BiasResidual& p, size_t begin, size_t end) {
  const size_t n = p.width;
  const auto* bias = static_cast<const T*>(p.bias);
  for (size_t row = begin; row < end; ++row) {
    T* r = static_cast<T*>(p.r) + row * n;
    const T* y = static_cast<const T*>(p.y) + row * n;
    if (p.x) {
      const T* x = static_cast<const T*>(p.x) + row * n;
      add_lanes(One(), r, x, y, bias, add_lanes(Full(), r, x, y, bias, 0, n), n);
    } else {
      add_lanes(One(), r, y, bias, add_lanes(Full(), r, y, bias, 0, n), n);
    }
  }
}

void bias_f32(const BiasResidual& p, size_t begin, size_t end) { bias_rows<float>(p, begin, end); }
void bias_bf16(const BiasResidual& p, size_t begin, size_t end) { bias_rows<Bf16>(p, begin, end); }

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

HWY_EXPORT(add_f32);
HWY_EXPORT(add_bf16);
HWY_EXPORT(bias_f32);
HWY_EXPORT(bias_bf16);
HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_bf16);

void add_bias_residual(ThreadPool& pool, const BiasResidual& args) {
  const auto rows =
      args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(bias_f32) : HWY_DYNAMIC_DISPATCH(bias_bf16);
  for_groups(pool, args.rows, kTaskRows,
             [&](size_t, size_t begin, size_t end) { rows(args, begin, end); });
}

void add_bias(ThreadPool& pool, DType dtype, void* y, const void* bias, size_t rows, size_t width) {
  add_bias_residual(pool, {dtype, y, nullptr, y, bias, rows, width});
}

void add_residual(ThreadPool& pool, DType dtype, void* r, const void* x, const void* y,
                  size_t count) {
  const auto range =
      dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(add_f32) : HWY_DYNAMIC_DISPATCH(add_bf16);
  for_groups(pool, count, kTaskElements,
             [&](size_t, size_t begin, size_t end) { range(r, x, y, begin, end); });
}

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
