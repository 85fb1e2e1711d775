#include "models/host/layernorm.hpp"

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
};

const std::vector<Case> kCases = {
    {DType::f32, 1, 1},   {DType::f32, 3, 7},     {DType::f32, 65, 48},  {DType::f32, 200, 83},
    {DType::bf16, 1, 16}, {DType::bf16, 130, 33}, {DType::bf16, 64, 192}};

struct Inputs {
  Tensor x, gamma, beta, dy, residual;
  explicit Inputs(const Case& c)
      : x(Tensor::random(c.dtype, c.rows * c.width, 1, 3.0)),
        gamma(Tensor::random(c.dtype, c.width, 2)),
        beta(Tensor::random(c.dtype, c.width, 3)),
        dy(Tensor::random(c.dtype, c.rows * c.width, 4)),
        residual(Tensor::random(c.dtype, c.rows * c.width, 5)) {}
};

struct Outputs {
  Tensor y, mean, rstd, dx, dgamma, dbeta;
  std::string bytes() const {
    return y.bytes() + mean.bytes() + rstd.bytes() + dx.bytes() + dgamma.bytes() + dbeta.bytes();
  }
};

Outputs compute(const Case& c, const Inputs& in, bool with_residual, uint32_t threads) {
  ThreadPool pool(threads);
  const ThreadPool::Turn turn(pool);
  const size_t elems = c.rows * c.width;
  Outputs o{Tensor(c.dtype, elems), Tensor(DType::f32, c.rows), Tensor(DType::f32, c.rows),
            Tensor(c.dtype, elems), Tensor(c.dtype, c.width),   Tensor(c.dtype, c.width)};
  host::layernorm_forward(pool, {.dtype = c.dtype,
                                 .y = o.y.data(),
                                 .mean = o.mean.floats(),
                                 .rstd = o.rstd.floats(),
                                 .x = in.x.data(),
                                 .gamma = in.gamma.data(),
                                 .beta = in.beta.data(),
                                 .rows = c.rows,
                                 .width = c.width});
  const Buffer scratch(host::layernorm_backward_scratch(c.rows, c.width));
  host::layernorm_backward(pool, {.dtype = c.dtype,
                                  .dx = o.dx.data(),
                                  .dgamma = o.dgamma.data(),
                                  .dbeta = o.dbeta.data(),
                                  .dy = in.dy.data(),
                                  .x = in.x.data(),
                                  .gamma = in.gamma.data(),
                                  .mean = o.mean.floats(),
                                  .rstd = o.rstd.floats(),
                                  .residual = with_residual ? in.residual.data() : nullptr,
                                  .scratch = scratch.data(),
                                  .rows = c.rows,
                                  .width = c.width});
  EXPECT_TRUE(scratch.intact() && o.y.intact() && o.dx.intact() && o.mean.intact());
  EXPECT_TRUE(o.rstd.intact() && o.dgamma.intact() && o.dbeta.intact());
  return o;
}

struct Reference {
  std::vector<double> y, mean, rstd, dx, dgamma, dbeta;
};

Reference reference(const Case& c, const Inputs& in, bool with_residual) {
  const size_t w = c.width;
  Reference r;
  r.y.resize(c.rows * w);
  r.dx.resize(c.rows * w);
  r.dgamma.resize(w);
  r.dbeta.resize(w);
  for (size_t row = 0; row < c.rows; ++row) {
    double mean = 0, variance = 0, plain = 0, hats = 0;
    for (size_t j = 0; j < w; ++j) mean += in.x.at(row * w + j) / static_cast<double>(w);
    for (size_t j = 0; j < w; ++j) {
      variance += std::pow(in.x.at(row * w + j) - mean, 2) / static_cast<double>(w);
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    r.mean.push_back(mean);
    r.rstd.push_back(rstd);
    const auto hat = [&](size_t j) { return (in.x.at(row * w + j) - mean) * rstd; };
    for (size_t j = 0; j < w; ++j) {
      const double dy = in.dy.at(row * w + j);
      r.y[row * w + j] = hat(j) * in.gamma.at(j) + in.beta.at(j);
      r.dgamma[j] += dy * hat(j);
      r.dbeta[j] += dy;
      plain += dy * in.gamma.at(j) / static_cast<double>(w);
      hats += dy * in.gamma.at(j) * hat(j) / static_cast<double>(w);
    }
    for (size_t j = 0; j < w; ++j) {
      const double dhat = in.dy.at(row * w + j) * in.gamma.at(j);
      r.dx[row * w + j] = rstd * (dhat - plain - hat(j) * hats) +
                          (with_residual ? in.residual.at(row * w + j) : 0.0);
    }
  }
  return r;
}

void expect_reference(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.dtype)) + " " + std::to_string(c.rows) + " x " +
               std::to_string(c.width));
  const Inputs in(c);
  for (const bool with_residual : {false, true}) {
    const Reference want = reference(c, in, with_residual);
    const Outputs got = compute(c, in, with_residual, 2);
    EXPECT_LT(relative_error(got.y, want.y), tolerance(c.dtype));
    EXPECT_LT(relative_error(got.mean, want.mean), 1e-6);
    EXPECT_LT(relative_error(got.rstd, want.rstd), 1e-6);
    // With one column the exact gradient is zero, so there is nothing to be relative to.
    if (c.width > 1) {
      EXPECT_LT(relative_error(got.dx, want.dx), tolerance(c.dtype));
      EXPECT_LT(relative_error(got.dgamma, want.dgamma), tolerance(c.dtype));
    }
    EXPECT_LT(relative_error(got.dbeta, want.dbeta), tolerance(c.dtype));
  }
}

TEST(Layernorm, MatchesReferenceInDouble) {
  for (const Case& c : kCases) expect_reference(c);
}

TEST(Layernorm, MatchesReferenceOnEveryTarget) {
  kernels::testing::for_each_target([] {
    expect_reference({DType::f32, 65, 83});
    expect_reference({DType::bf16, 65, 83});
  });
}

TEST(Layernorm, ThreadsChangeNoBit) {
  for (const Case& c : kCases) {
    const Inputs in(c);
    const std::string one = compute(c, in, true, 1).bytes();
    for (const uint32_t threads : {2u, 3u, 8u}) {
      EXPECT_EQ(compute(c, in, true, threads).bytes(), one) << threads << " threads";
    }
  }
}

TEST(Layernorm, RowsFarFromZeroKeepTheirVariance) {
  const Case c{DType::f32, 2, 64};
  Inputs in(c);
  for (size_t i = 0; i < c.rows * c.width; ++i) {
    in.x.set(i, 1000.0f + static_cast<float>(in.x.at(i)));
  }
  const Reference want = reference(c, in, false);
  const Outputs got = compute(c, in, false, 1);
  EXPECT_LT(relative_error(got.rstd, want.rstd), 1e-4);
}

TEST(Layernorm, InputGradientMayOverwriteItsInputs) {
  const Case c{DType::f32, 70, 40};
  const Inputs in(c);
  const Outputs apart = compute(c, in, true, 1);
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const Buffer scratch(host::layernorm_backward_scratch(c.rows, c.width));
  for (const bool over_dy : {true, false}) {
    const Inputs again(c);
    const Tensor& target = over_dy ? again.dy : again.residual;
    host::layernorm_backward(
        pool, {c.dtype, target.data(), apart.dgamma.data(), apart.dbeta.data(), again.dy.data(),
               again.x.data(), again.gamma.data(), apart.mean.floats(), apart.rstd.floats(),
               again.residual.data(), scratch.data(), c.rows, c.width});
    EXPECT_EQ(target.bytes(), apart.dx.bytes());
  }
}

}  // namespace
}  // namespace strata
