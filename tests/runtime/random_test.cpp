#include "runtime/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace strata {
namespace {

TEST(Random, PhiloxKnownAnswers) {  // kat_vectors of Random123, philox2x64, 10 rounds
  EXPECT_EQ(random_bits(0, 0, 0), 0xca00a0459843d731u);
  EXPECT_EQ(random_bits(~0ull, ~0ull, ~0ull), 0x65b021d60cd8310fu);
  EXPECT_EQ(random_bits(0xa4093822299f31d0u, 0x13198a2e03707344u, 0x243f6a8885a308d3u),
            0x0a5e742c2997341cu);
}

TEST(Random, EveryArgumentMatters) {
  std::set<uint64_t> seen;
  for (uint64_t bit = 0; bit < 64; ++bit) {
    seen.insert(random_bits(1ull << bit, 0, 0));
    seen.insert(random_bits(0, 1ull << bit, 0));
    seen.insert(random_bits(0, 0, 1ull << bit));
  }
  EXPECT_EQ(seen.size(), 192u);
  EXPECT_NE(random_stream(RandomUse::init, 7), random_stream(RandomUse::data, 7));
  EXPECT_NE(random_stream(RandomUse::init, 7), random_stream(RandomUse::init, 8));
}

TEST(Random, UnitAndBelowAreUniform) {
  constexpr uint64_t kDraws = 200000;
  std::array<uint64_t, 10> tenths{};
  std::array<uint64_t, 7> sevenths{};
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double u = random_unit(3, 1, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++tenths[static_cast<size_t>(u * 10)];
    const uint64_t k = random_below(3, 2, i, 7);
    ASSERT_LT(k, 7u);
    ++sevenths[k];
  }
  // Five standard deviations of a binomial count.
  for (uint64_t n : tenths) EXPECT_NEAR(static_cast<double>(n), kDraws / 10.0, 5 * 135);
  for (uint64_t n : sevenths) EXPECT_NEAR(static_cast<double>(n), kDraws / 7.0, 5 * 157);
  EXPECT_EQ(random_below(3, 2, 0, 1), 0u);
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  constexpr int kDraws = 1000000;
  double sums[5] = {};
  for (int i = 0; i < kDraws; ++i) {
    const double z = random_normal(11, random_stream(RandomUse::init, 4), i);
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= z;
    }
  }
  // Standard errors of the first four moments of a normal: 1, sqrt 2, sqrt 15, sqrt 96 over sqrt n.
  EXPECT_NEAR(sums[1] / kDraws, 0.0, 5e-3);
  EXPECT_NEAR(sums[2] / kDraws, 1.0, 7e-3);
  EXPECT_NEAR(sums[3] / kDraws, 0.0, 2e-2);
  EXPECT_NEAR(sums[4] / kDraws, 3.0, 5e-2);
}

TEST(Random, NormalPassesKolmogorovSmirnov) {
  constexpr int kDraws = 200000;
  std::vector<double> cdf(kDraws);
  for (int i = 0; i < kDraws; ++i) {
    cdf[i] = 0.5 * std::erfc(-static_cast<double>(random_normal(5, 9, i)) / std::sqrt(2.0));
  }
  std::sort(cdf.begin(), cdf.end());
  double distance = 0;
  for (int i = 0; i < kDraws; ++i) {
    distance = std::max({distance, cdf[i] - i / double{kDraws}, (i + 1) / double{kDraws} - cdf[i]});
  }
  EXPECT_LT(distance * std::sqrt(double{kDraws}), 1.95);  // the 0.1 % point
}

TEST(Random, NormalInvertsTheDistributionFunction) {
  // Checks the approximation itself, in the centre and in both tails.
  for (uint64_t i = 0; i < 100000; ++i) {
    const double p = (static_cast<double>(random_bits(2, 0, i) >> 12) + 0.5) * 0x1p-52;
    const double z = random_normal(2, 0, i);
    const double tail = std::min(p, 1 - p);
    const double back = 0.5 * std::erfc(std::fabs(z) / std::sqrt(2.0));
    // One float rounding of z moves the tail by |z| * density <= tail * (z^2 + 1) relative.
    ASSERT_NEAR(back / tail, 1.0, (z * z + 1) * 1.2e-7) << "index " << i << " z " << z;
    ASSERT_EQ(z < 0, p < 0.5);
  }
}

TEST(Random, NormalBitsAreFixed) {
  // From an independent implementation of both algorithms.
  const std::array<float, 4> expected = {0x1.69bcfcp+0f, 0x1.093c66p+0f, -0x1.47d34cp-2f,
                                         0x1.1fa66ap-3f};
  for (uint64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(random_normal(1, 0, i), expected[i]);
}

}  // namespace
}  // namespace strata
