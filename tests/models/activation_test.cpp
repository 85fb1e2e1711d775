#include "models/host/activation.hpp"

#include <gtest/gtest.h>

#include "tests/models/kernel_check.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata {
namespace {

using testing::relative_error;
using testing::Tensor;
using testing::tolerance;

constexpr double kSlope = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kCube = 0.044715;

double gelu(double x) { return x / 2 * (1 + std::tanh(kSlope * (x + kCube * x * x * x))); }

double gelu_slope(double x) {
  const double t = std::tanh(kSlope * (x + kCube * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * kSlope * (1 + 3 * kCube * x * x);
}

/// Values from -12 to 12 in steps that no type rounds alike.
Tensor sweep(DType t, size_t elems) {
  Tensor x(t, elems);
  for (size_t i = 0; i < elems; ++i) {
    x.set(i, -12.0f + 24.0f * (static_cast<float>(i) + 0.37f) / static_cast<float>(elems));
  }
  return x;
}

void expect_reference(DType t, size_t elems) {
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const Tensor x = sweep(t, elems);
  const Tensor dy = Tensor::random(t, elems, 2);
  const Tensor y(t, elems), dx(t, elems);
  host::gelu_forward(pool, t, y.data(), x.data(), elems);
  host::gelu_backward(pool, t, dx.data(), dy.data(), x.data(), elems);
  std::vector<double> want_y(elems), want_dx(elems);
  for (size_t i = 0; i < elems; ++i) {
    want_y[i] = gelu(x.at(i));
    want_dx[i] = dy.at(i) * gelu_slope(x.at(i));
    if (t == DType::f32 && std::abs(x.at(i)) < 3) {
      EXPECT_NEAR(y.at(i), want_y[i], 1e-6 * std::abs(want_y[i])) << x.at(i);
      // The slope has a zero at -0.75, where only its absolute error is small.
      EXPECT_NEAR(dx.at(i), want_dx[i], 1e-6 * std::abs(dy.at(i))) << x.at(i);
    }
  }
  EXPECT_LT(relative_error(y, want_y), tolerance(t));
  EXPECT_LT(relative_error(dx, want_dx), tolerance(t));
  EXPECT_TRUE(y.intact() && dx.intact());
}

TEST(Gelu, MatchesReferenceInDouble) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const size_t elems : {1u, 15u, 40003u}) expect_reference(t, elems);
  }
}

TEST(Gelu, MatchesReferenceOnEveryTarget) {
  kernels::testing::for_each_target([] {
    expect_reference(DType::f32, 1003);
    expect_reference(DType::bf16, 1003);
  });
}

TEST(Gelu, FarValuesGoToTheirLimits) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  const std::vector<float> far = {1e4f, -1e4f, 3e9f, -3e9f, INFINITY, 0.0f};
  Tensor x(DType::f32, far.size());
  for (size_t i = 0; i < far.size(); ++i) x.set(i, far[i]);
  Tensor dy = Tensor::random(DType::f32, far.size(), 1);
  for (size_t i = 0; i < far.size(); ++i) dy.set(i, 1.0f);
  const Tensor y(DType::f32, far.size()), dx(DType::f32, far.size());
  host::gelu_forward(pool, DType::f32, y.data(), x.data(), far.size());
  host::gelu_backward(pool, DType::f32, dx.data(), dy.data(), x.data(), far.size());
  const std::vector<double> want_y = {1e4, 0, 3e9, 0, INFINITY, 0}, want_dx = {1, 0, 1, 0, 1, 0.5};
  for (size_t i = 0; i < far.size(); ++i) {
    if (std::isinf(far[i])) {
      EXPECT_EQ(y.at(i), far[i]);
      continue;
    }
    EXPECT_NEAR(y.at(i), want_y[i], 1e-6 * std::abs(want_y[i]) + 1e-20) << far[i];
    EXPECT_NEAR(dx.at(i), want_dx[i], 1e-6) << far[i];
  }
}

TEST(Gelu, NotANumberStaysOne) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  for (const DType t : {DType::f32, DType::bf16}) {
    const size_t elems = 35;
    Tensor x = Tensor::random(t, elems, 1);
    const Tensor dy = Tensor::random(t, elems, 2), y(t, elems), dx(t, elems);
    for (const size_t i : {size_t{3}, elems - 1}) x.set(i, NAN);
    host::gelu_forward(pool, t, y.data(), x.data(), elems);
    host::gelu_backward(pool, t, dx.data(), dy.data(), x.data(), elems);
    for (size_t i = 0; i < elems; ++i) {
      EXPECT_EQ(std::isnan(y.at(i)), i == 3 || i == elems - 1) << i;
      EXPECT_EQ(std::isnan(dx.at(i)), i == 3 || i == elems - 1) << i;
    }
  }
}

TEST(Gelu, ThreadsChangeNoBit) {
  const size_t elems = 50001;
  for (const DType t : {DType::f32, DType::bf16}) {
    const Tensor x = sweep(t, elems), dy = Tensor::random(t, elems, 3);
    std::string one;
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
      ThreadPool pool(threads);
      const ThreadPool::Turn turn(pool);
      const Tensor y(t, elems), dx(t, elems);
      host::gelu_forward(pool, t, y.data(), x.data(), elems);
      host::gelu_backward(pool, t, dx.data(), dy.data(), x.data(), elems);
      if (threads == 1) one = y.bytes() + dx.bytes();
      EXPECT_EQ(y.bytes() + dx.bytes(), one) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace strata
