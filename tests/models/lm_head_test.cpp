#include "models/host/lm_head.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "runtime/errors.hpp"
#include "tests/models/aligned_buffer.hpp"

namespace strata::host {
namespace {

using Buffer = testing::AlignedBuffer;
Buffer buffer(size_t bytes) { return testing::aligned_buffer(bytes); }

struct Tensor {
  DType type;
  std::vector<double> values;
  Buffer bytes;

  Tensor(int64_t count, DType t) : type(t), values(count), bytes(buffer(count * size_of(t))) {
    std::memset(bytes.get(), 0xff, count * size_of(t));
  }
  void set(int64_t i, float x) {
    if (type == DType::f32) {
      reinterpret_cast<float*>(bytes.get())[i] = x;
    } else {
      reinterpret_cast<Bf16*>(bytes.get())[i] = to_bf16(x);
    }
    values[i] = get(i);
  }
  float get(int64_t i) const {
    return type == DType::f32 ? reinterpret_cast<const float*>(bytes.get())[i]
                              : to_float(reinterpret_cast<const Bf16*>(bytes.get())[i]);
  }
  void fill(float size, uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t i = 0; i < values.size(); ++i) {
      set(i, size * (static_cast<float>(random() % 65536) / 32768.0f - 1));
    }
  }
  std::vector<std::byte> copy() const {
    return {bytes.get(), bytes.get() + values.size() * size_of(type)};
  }
};

struct Case {
  int64_t rows, width, vocabulary;
  DType dtype;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.rows << "x" << c.width << "x" << c.vocabulary << "_" << name_of(c.dtype);
}

struct Problem {
  Case c;
  Tensor x, wte, dx, dwte;
  std::vector<int32_t> targets;
  float scale;
  double loss = 0;

  explicit Problem(const Case& c)
      : c(c),
        x(c.rows * c.width, c.dtype),
        wte(c.vocabulary * c.width, c.dtype),
        dx(c.rows * c.width, c.dtype),
        dwte(c.vocabulary * c.width, c.dtype),
        targets(c.rows),
        scale(1.0f / static_cast<float>(c.rows)) {
    x.fill(1.0f, 1);
    wte.fill(4.0f / std::sqrt(static_cast<float>(c.width)), 2);
    for (int64_t r = 0; r < c.rows; ++r) {
      targets[r] = r % 7 == 3 ? -1 : static_cast<int32_t>(r * 7919 % c.vocabulary);
    }
    targets[0] = 0;
    targets.back() = static_cast<int32_t>(c.vocabulary - 1);
  }

  void run(uint32_t threads, bool backward = true) {
    ThreadPool pool(threads);
    const LmHead head(c.rows, c.width, c.vocabulary, c.dtype, threads);
    const size_t bytes = backward ? head.scratch_bytes() : head.evaluate_scratch_bytes();
    const Buffer scratch = buffer(bytes);
    std::memset(scratch.get(), 0xff, bytes);
    const LmHeadArgs args{.x = x.bytes.get(),
                          .wte = wte.bytes.get(),
                          .targets = targets.data(),
                          .scale = scale,
                          .dx = dx.bytes.get(),
                          .dwte = dwte.bytes.get(),
                          .loss_sum = &loss,
                          .scratch = scratch.get()};
    backward ? head.run(pool, args) : head.evaluate(pool, args);
  }
};

struct Reference {
  double loss = 0;
  std::vector<double> dx, dwte;

  explicit Reference(const Problem& p) : dx(p.dx.values.size()), dwte(p.dwte.values.size()) {
    const auto [rows, width, vocabulary, dtype] = p.c;
    std::vector<double> g(vocabulary);
    for (int64_t r = 0; r < rows; ++r) {
      if (p.targets[r] < 0) continue;
      const double* x = &p.x.values[r * width];
      double most = -1e300, sum = 0;
      for (int64_t v = 0; v < vocabulary; ++v) {
        g[v] = 0;
        for (int64_t i = 0; i < width; ++i) g[v] += x[i] * p.wte.values[v * width + i];
        most = std::max(most, g[v]);
      }
      for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(g[v] - most);
      loss += most + std::log(sum) - g[p.targets[r]];
      for (int64_t v = 0; v < vocabulary; ++v) {
        const double one = v == p.targets[r] ? 1 : 0;
        const double d = (std::exp(g[v] - most) / sum - one) * p.scale;
        for (int64_t i = 0; i < width; ++i) {
          dx[r * width + i] += d * p.wte.values[v * width + i];
          dwte[v * width + i] += d * x[i];
        }
      }
    }
  }
};

/// Root mean square of the difference over that of the reference.
double relative_error(const Tensor& got, const std::vector<double>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got.get(i) - want[i]) * (got.get(i) - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

constexpr auto kF32 = DType::f32;
constexpr auto kBf16 = DType::bf16;

class LmHeadCases : public ::testing::TestWithParam<Case> {};

TEST_P(LmHeadCases, EqualsReference) {
  Problem p(GetParam());
  const Reference want(p);
  p.run(2);
  const bool exact = p.c.dtype == kF32;
  EXPECT_NEAR(p.loss, want.loss, 1e-5 * want.loss);
  EXPECT_LT(relative_error(p.dx, want.dx), exact ? 2e-6 : 6e-3);
  EXPECT_LT(relative_error(p.dwte, want.dwte), exact ? 2e-6 : 6e-3);
  Problem q(GetParam());
  q.run(2, false);
  EXPECT_EQ(q.loss, p.loss) << "evaluate";
}

TEST_P(LmHeadCases, BitsDoNotDependOnThreads) {
  Problem p(GetParam());
  p.run(1);
  for (const uint32_t threads : {2, 3, 8}) {
    Problem q(GetParam());
    q.run(threads);
    EXPECT_EQ(p.loss, q.loss) << threads;
    EXPECT_EQ(p.dx.copy(), q.dx.copy()) << threads;
    EXPECT_EQ(p.dwte.copy(), q.dwte.copy()) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, LmHeadCases,
    ::testing::Values(Case{5, 24, 37, kF32}, Case{5, 24, 37, kBf16},          // nothing is packed
                      Case{64, 64, 256, kF32}, Case{96, 64, 256, kBf16},      // one chunk
                      Case{130, 80, 1291, kF32}, Case{130, 80, 1291, kBf16},  // rests everywhere
                      Case{100, 65, 513, kF32}, Case{100, 65, 513, kBf16},    // odd widths
                      Case{513, 32, 300, kF32}, Case{575, 32, 640, kBf16},    // strips
                      Case{1090, 16, 129, kF32}, Case{1090, 16, 129, kBf16},  // blocks of rows
                      Case{70, 64, 4700, kF32}, Case{70, 64, 4700, kBf16}));  // segments

TEST(LmHead, KeepsPartOfTheRows) {
  EXPECT_EQ(LmHead(1024, 768, 50257, kF32, 2).block_rows(), 512);
  EXPECT_EQ(LmHead(4096, 768, 50257, kF32, 2).block_rows(), 512);
  EXPECT_EQ(LmHead(1024, 768, 50257, kBf16, 2).block_rows(), 1024);
  EXPECT_EQ(LmHead(8192, 768, 50257, kBf16, 2).block_rows(), 1024);
  // Never all logits in fp32.
  EXPECT_LT(LmHead(1024, 768, 50257, kF32, 2).scratch_bytes(), size_t{1024} * 50257 * 4);
}

TEST(LmHead, ConfidentPredictionsHaveExactGradients) {
  // The target's probability is 0.994; rounded to bf16 first, 1 - p would be off by a third.
  Problem p({64, 64, 128, kBf16});
  for (int64_t r = 0; r < 64; ++r) {
    for (int64_t i = 0; i < 64; ++i) p.x.set(r * 64 + i, r == i ? 1.0f : 0.0f);
    p.targets[r] = static_cast<int32_t>(r);
  }
  for (int64_t v = 0; v < 128; ++v) {
    for (int64_t i = 0; i < 64; ++i) p.wte.set(v * 64 + i, v == i ? 10.0f : 0.0f);
  }
  const Reference want(p);
  p.run(2);
  EXPECT_NEAR(p.loss, want.loss, 2e-3 * want.loss);
  EXPECT_LT(relative_error(p.dwte, want.dwte), 6e-3);
}

TEST(LmHead, NonFiniteLogitsGiveANonFiniteLoss) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const DType t : {kF32, kBf16}) {
    for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
      for (const int64_t v : {0, 77, 699}) {
        Problem p({66, 64, 700, t});
        p.wte.set(v * 64 + 5, bad);
        p.run(2);
        EXPECT_FALSE(std::isfinite(p.loss)) << name_of(t) << " " << bad << " in row " << v;
        p.run(2, false);
        EXPECT_FALSE(std::isfinite(p.loss)) << "evaluate " << bad;
      }
    }
  }
}

TEST(LmHead, RefusesWhatItWasNotMadeFor) {
  EXPECT_THROW(LmHead(0, 8, 8, kF32, 1), ConfigError);
  EXPECT_THROW(LmHead(8, 8, 8, kF32, 0), ConfigError);
  Problem p({8, 16, 32, kF32});
  p.targets[3] = 32;
  EXPECT_THROW(p.run(1), StateError);
  const LmHead head(8, 16, 32, kF32, 1);
  ThreadPool pool(2);
  double loss = 0;
  EXPECT_THROW(head.run(pool, {.loss_sum = &loss}), StateError);
}

}  // namespace
}  // namespace strata::host
