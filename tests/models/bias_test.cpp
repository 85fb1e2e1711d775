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

struct Case {
  DType dtype;
  size_t rows, width;

  Tensor dy() const { return Tensor::random(dtype, rows * width, 2); }
};

const std::vector<Case> kCases = {{DType::f32, 1, 1},     {DType::f32, 9, 17},
                                  {DType::f32, 200, 130}, {DType::bf16, 3, 40},
                                  {DType::bf16, 131, 19}, {DType::bf16, 64, 600}};

Tensor compute(const Case& c, uint32_t threads) {
  ThreadPool pool(threads);
  const ThreadPool::Turn turn(pool);
  const Tensor dy = c.dy();
  Tensor gradient(c.dtype, c.width);
  const Buffer scratch(host::bias_gradient_scratch(c.rows, c.width));
  host::bias_gradient(pool, c.dtype, gradient.data(), dy.data(), c.rows, c.width, scratch.data());
  EXPECT_TRUE(gradient.intact() && scratch.intact());
  return gradient;
}

void expect_reference(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.dtype)) + " " + std::to_string(c.rows) + " x " +
               std::to_string(c.width));
  const std::vector<double> dy = c.dy().values();
  std::vector<double> gradient(c.width);
  for (size_t i = 0; i < dy.size(); ++i) gradient[i % c.width] += dy[i];
  EXPECT_LT(relative_error(compute(c, 2), gradient), tolerance(c.dtype));
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

}  // namespace
}  // namespace strata
