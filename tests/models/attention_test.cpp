#include "models/host/attention.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"
#include "tests/models/kernel_check.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata {
namespace {

using host::Attention;
using host::AttentionShape;
using testing::Buffer;
using testing::relative_error;
using testing::Tensor;

struct Reference {
  std::vector<double> out, lse, dqkv;
};

/// Attention in double, as it is written in books: all probabilities of a head at once.
Reference reference(const AttentionShape& s, const Tensor& qkv, const Tensor& dout) {
  const size_t hd = s.width / s.heads, n = s.seq, w = s.width;
  Reference r;
  r.out.resize(s.batch * n * w);
  r.lse.resize(s.batch * s.heads * n);
  r.dqkv.resize(s.batch * n * 3 * w);
  const double scale = 1 / std::sqrt(static_cast<double>(hd));
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      const auto in = [&](size_t part, size_t t, size_t j) {
        return ((b * n + t) * 3 + part) * w + h * hd + j;
      };
      const auto at = [&](size_t t, size_t j) { return (b * n + t) * w + h * hd + j; };
      for (size_t i = 0; i < n; ++i) {
        std::vector<double> p(i + 1), dp(i + 1, 0.0);
        double max = -INFINITY, sum = 0, mean = 0;
        for (size_t j = 0; j <= i; ++j) {
          double dot = 0;
          for (size_t k = 0; k < hd; ++k) dot += qkv.at(in(0, i, k)) * qkv.at(in(1, j, k));
          p[j] = dot * scale;
          max = std::max(max, p[j]);
        }
        for (double& x : p) sum += x = std::exp(x - max);
        r.lse[(b * s.heads + h) * n + i] = max + std::log(sum);
        for (size_t j = 0; j <= i; ++j) {
          p[j] /= sum;
          for (size_t k = 0; k < hd; ++k) {
            r.out[at(i, k)] += p[j] * qkv.at(in(2, j, k));
            dp[j] += dout.at(at(i, k)) * qkv.at(in(2, j, k));
          }
          mean += p[j] * dp[j];
        }
        for (size_t j = 0; j <= i; ++j) {
          const double ds = p[j] * (dp[j] - mean) * scale;
          for (size_t k = 0; k < hd; ++k) {
            r.dqkv[in(0, i, k)] += ds * qkv.at(in(1, j, k));
            r.dqkv[in(1, j, k)] += ds * qkv.at(in(0, i, k));
            r.dqkv[in(2, j, k)] += p[j] * dout.at(at(i, k));
          }
        }
      }
    }
  }
  return r;
}

struct Result {
  Tensor out, lse, dqkv;
  std::string bytes() const { return out.bytes() + lse.bytes() + dqkv.bytes(); }
};

Result compute(const AttentionShape& s, const Tensor& qkv, const Tensor& dout, uint32_t threads) {
  ThreadPool pool(threads);
  const ThreadPool::Turn turn(pool);
  const Attention& a = host::attention(s);
  const size_t rows = s.batch * s.seq;
  Result r{Tensor(s.dtype, rows * s.width), Tensor(DType::f32, rows * s.heads),
           Tensor(s.dtype, rows * 3 * s.width)};
  const Buffer forward(a.forward_scratch(threads)), backward(a.backward_scratch(threads));
  a.forward(pool, {r.out.data(), r.lse.floats(), qkv.data(), forward.data()});
  a.backward(pool, {r.dqkv.data(), qkv.data(), r.out.data(), r.lse.floats(), dout.data(),
                    backward.data()});
  EXPECT_TRUE(forward.intact() && backward.intact());
  EXPECT_TRUE(r.out.intact() && r.lse.intact() && r.dqkv.intact());
  return r;
}

const std::vector<AttentionShape> kShapes = {
    {.batch = 2, .seq = 1, .width = 16, .heads = 2},
    {.batch = 1, .seq = 17, .width = 8, .heads = 1},
    {.batch = 2, .seq = 40, .width = 72, .heads = 3},
    {.batch = 1, .seq = 131, .width = 32, .heads = 2},
    {.batch = 1, .seq = 130, .width = 128, .heads = 1},
    {.batch = 1, .seq = 301, .width = 16, .heads = 2},
};

std::vector<AttentionShape> all_shapes() {
  std::vector<AttentionShape> all;
  for (const DType t : {DType::f32, DType::bf16}) {
    for (AttentionShape s : kShapes) {
      s.dtype = t;
      all.push_back(s);
    }
  }
  return all;
}

std::string label(const AttentionShape& s) {
  return std::string(name_of(s.dtype)) + " B" + std::to_string(s.batch) + " T" +
         std::to_string(s.seq) + " D" + std::to_string(s.width) + " H" + std::to_string(s.heads);
}

void expect_reference(const AttentionShape& s) {
  SCOPED_TRACE(label(s));
  const Tensor qkv = Tensor::random(s.dtype, s.batch * s.seq * 3 * s.width, 1, 2.0);
  const Tensor dout = Tensor::random(s.dtype, s.batch * s.seq * s.width, 2);
  const Reference want = reference(s, qkv, dout);
  const Result got = compute(s, qkv, dout, 2);
  // In bf16 the probabilities and score gradients are rounded as well.
  const double tolerance = s.dtype == DType::f32 ? 2e-6 : 8e-3;
  EXPECT_LT(relative_error(got.out, want.out), tolerance);
  EXPECT_LT(relative_error(got.lse, want.lse), 2e-6);
  EXPECT_LT(relative_error(got.dqkv, want.dqkv), tolerance);
}

TEST(Attention, MatchesReferenceInDouble) {
  for (const AttentionShape& s : all_shapes()) expect_reference(s);
}

TEST(Attention, MatchesReferenceOnEveryTarget) {
  kernels::testing::for_each_target([] {
    expect_reference({.dtype = DType::f32, .batch = 1, .seq = 75, .width = 36, .heads = 2});
    expect_reference({.dtype = DType::bf16, .batch = 1, .seq = 75, .width = 36, .heads = 2});
  });
}

TEST(Attention, SurvivesLargeScores) {
  AttentionShape s{.batch = 1, .seq = 33, .width = 64, .heads = 1};
  const Tensor qkv = Tensor::random(s.dtype, s.seq * 3 * s.width, 3, 30.0);
  const Tensor dout = Tensor::random(s.dtype, s.seq * s.width, 4);
  const Reference want = reference(s, qkv, dout);
  const Result got = compute(s, qkv, dout, 1);
  EXPECT_LT(relative_error(got.out, want.out), 1e-3);  // scores of 1e3 keep four digits behind
  EXPECT_LT(relative_error(got.lse, want.lse), 2e-6);
}

TEST(Attention, ThreadsChangeNoBit) {
  for (const AttentionShape& s : all_shapes()) {
    SCOPED_TRACE(label(s));
    const Tensor qkv = Tensor::random(s.dtype, s.batch * s.seq * 3 * s.width, 5);
    const Tensor dout = Tensor::random(s.dtype, s.batch * s.seq * s.width, 6);
    const std::string one = compute(s, qkv, dout, 1).bytes();
    for (const uint32_t threads : {2u, 3u, 8u}) {
      EXPECT_EQ(compute(s, qkv, dout, threads).bytes(), one) << threads << " threads";
    }
  }
}

TEST(Attention, FutureTokensChangeNothing) {
  for (const DType t : {DType::f32, DType::bf16}) {
    const AttentionShape s{.dtype = t, .batch = 2, .seq = 300, .width = 16, .heads = 2};
    const size_t rows = s.batch * s.seq;
    Tensor qkv = Tensor::random(t, rows * 3 * s.width, 7);
    const Tensor dout = Tensor::random(t, rows * s.width, 8);
    const Result before = compute(s, qkv, dout, 2);
    const size_t changed = 137;
    for (size_t i = 0; i < 3 * s.width; ++i) qkv.set(changed * 3 * s.width + i, 3.0f);
    const Result after = compute(s, qkv, dout, 2);
    const size_t row_bytes = s.width * size_of(t);
    EXPECT_EQ(before.out.bytes().substr(0, changed * row_bytes),
              after.out.bytes().substr(0, changed * row_bytes));
    for (size_t row = changed; row < s.seq; ++row) {
      EXPECT_NE(before.out.bytes().substr(row * row_bytes, row_bytes),
                after.out.bytes().substr(row * row_bytes, row_bytes));
    }
    EXPECT_EQ(before.out.bytes().substr(s.seq * row_bytes),  // the other sequence of the batch
              after.out.bytes().substr(s.seq * row_bytes));
  }
}

TEST(Attention, NotANumberReachesTheOutput) {
  const AttentionShape s{.batch = 1, .seq = 24, .width = 16, .heads = 1};
  Tensor qkv = Tensor::random(s.dtype, s.seq * 3 * s.width, 9);
  const Tensor dout = Tensor::random(s.dtype, s.seq * s.width, 10);
  qkv.set(5 * 3 * s.width, NAN);  // one query
  const Result got = compute(s, qkv, dout, 1);
  EXPECT_TRUE(std::isfinite(got.out.at(4 * s.width)));
  EXPECT_TRUE(std::isnan(got.out.at(5 * s.width)));
  EXPECT_TRUE(std::isfinite(got.out.at(6 * s.width)));
  EXPECT_TRUE(std::isnan(got.dqkv.at(5 * 3 * s.width)));
}

TEST(Attention, RefusesWidthThatHeadsDoNotDivide) {
  EXPECT_THROW(Attention({.batch = 1, .seq = 4, .width = 10, .heads = 3}), ConfigError);
  EXPECT_THROW(Attention({.batch = 1, .seq = 0, .width = 12, .heads = 3}), ConfigError);
}

}  // namespace
}  // namespace strata
