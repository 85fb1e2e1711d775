#include "models/host/bias.hpp"

#include <gtest/gtest.h>

#include "tests/models/kernel_check.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata {
namespace {

using testing::Buffer;
using testing::relative_error;
using testing::Tensor;
using testing::tolerance;

struct Outputs {
  Tensor biased, residual, both, gradient;
  std::string bytes() const {
    return biased.bytes() + residual.bytes() + both.bytes() + gradient.bytes();
  }
};

struct Case {
  DType dtype;
  size_t rows, width;

  Tensor x() const { return Tensor::random(dtype, rows * width, 1); }
  Tensor y() const { return Tensor::random(dtype, rows * width, 2); }
  Tensor bias() const { return Tensor::random(dtype, width, 3); }
};

const std::vector<Case> kCases = {{DType::f32, 1, 1},     {DType::f32, 9, 17},
                                  {DType::f32, 200, 130}, {DType::bf16, 3, 40},
                                  {DType::bf16, 131, 19}, {DType::bf16, 64, 600}};

Outputs compute(const Case& c, uint32_t threads) {
  ThreadPool pool(threads);
  const ThreadPool::Turn turn(pool);
  const Tensor y = c.y(), bias = c.bias();
  const size_t elems = c.rows * c.width;
  Outputs o{c.x(), Tensor(c.dtype, elems), Tensor(c.dtype, elems), Tensor(c.dtype, c.width)};
  const Tensor x = c.x();
  const Buffer scratch(host::bias_gradient_scratch(c.rows, c.width));
  host::add_bias(pool, c.dtype, o.biased.data(), bias.data(), c.rows, c.width);
  host::add_residual(pool, c.dtype, o.residual.data(), x.data(), y.data(), elems);
  host::add_bias_residual(
      pool, {c.dtype, o.both.data(), x.data(), y.data(), bias.data(), c.rows, c.width});
  host::bias_gradient(pool, c.dtype, o.gradient.data(), y.data(), c.rows, c.width, scratch.data());
  EXPECT_TRUE(o.biased.intact() && o.residual.intact() && o.both.intact());
  EXPECT_TRUE(o.gradient.intact() && scratch.intact());
  return o;
}

void expect_reference(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.dtype)) + " " + std::to_string(c.rows) + " x " +
               std::to_string(c.width));
  const std::vector<double> x = c.x().values(), y = c.y().values(), bias = c.bias().values();
  std::vector<double> biased(x.size()), residual(x.size()), both(x.size()), gradient(c.width);
  for (size_t i = 0; i < x.size(); ++i) {
    biased[i] = x[i] + bias[i % c.width];
    residual[i] = x[i] + y[i];
    both[i] = x[i] + y[i] + bias[i % c.width];
    gradient[i % c.width] += y[i];
  }
  const Outputs got = compute(c, 2);
  EXPECT_LT(relative_error(got.biased, biased), tolerance(c.dtype));
  EXPECT_LT(relative_error(got.residual, residual), tolerance(c.dtype));
  EXPECT_LT(relative_error(got.both, both), tolerance(c.dtype));
  EXPECT_LT(relative_error(got.gradient, gradient), tolerance(c.dtype));
}

TEST(Bias, MatchesReferenceInDouble) {
  for (const Case& c : kCases) expect_reference(c);
}

TEST(Bias, MatchesReferenceOnEveryTarget) {
  kernels::testing::for_each_target([] {
    expect_reference({DType::f32, 70, 37});
    expect_reference({DType::bf16, 70, 37});
  });
}

TEST(Bias, ThreadsChangeNoBit) {
  for (const Case& c : kCases) {
    const std::string one = compute(c, 1).bytes();
    for (const uint32_t threads : {2u, 3u, 8u}) {
      EXPECT_EQ(compute(c, threads).bytes(), one) << threads << " threads";
    }
  }
}

TEST(Bias, GradientIsRoundedOnce) {
  // 256 + 1 is not a bf16, so a sum kept in bf16 would stay at 256.
  const size_t rows = 129;
  Tensor dy(DType::bf16, rows);
  dy.set(0, 256.0f);
  for (size_t i = 1; i < rows; ++i) dy.set(i, 1.0f);
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  const Tensor gradient(DType::bf16, 1);
  const Buffer scratch(host::bias_gradient_scratch(rows, 1));
  host::bias_gradient(pool, DType::bf16, gradient.data(), dy.data(), rows, 1, scratch.data());
  EXPECT_EQ(gradient.at(0), 384.0);
}

TEST(Bias, SumMayOverwriteItsInputs) {
  const Case c{DType::f32, 20, 33};
  const Outputs apart = compute(c, 1);
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const Tensor bias = c.bias();
  for (const bool over_x : {true, false}) {
    const Tensor x = c.x(), y = c.y();
    void* r = over_x ? x.data() : y.data();
    host::add_bias_residual(pool, {c.dtype, r, x.data(), y.data(), bias.data(), c.rows, c.width});
    EXPECT_EQ((over_x ? x : y).bytes(), apart.both.bytes());
  }
}

}  // namespace
}  // namespace strata
