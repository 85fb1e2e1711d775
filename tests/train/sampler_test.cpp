#include "train/sampler.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

TEST(Sampler, LastTenthIsForValidation) {
  EXPECT_EQ(split_tokens(1000).train, 900u);
  EXPECT_EQ(split_tokens(1000).validation, 100u);
  EXPECT_EQ(split_tokens(1009).train, 909u);
  EXPECT_EQ(split_tokens(9).validation, 0u);
}

TEST(Sampler, TrainingWindowsStayInTheTrainingPartAndReachBothEnds) {
  const WindowSampler sampler(100, 8, 1);
  std::vector<int> hits(90);
  for (uint64_t i = 0; i < 8200; ++i) {
    const uint64_t start = sampler.train_start(i);
    ASSERT_LE(start + 9, 90u);
    ++hits[start];
  }
  // 82 windows, 100 hits expected each; five standard deviations.
  for (int start = 0; start < 82; ++start) EXPECT_NEAR(hits[start], 100, 50) << start;
}

TEST(Sampler, StartsDependOnSeedAndIndexOnly) {
  const WindowSampler a(1000000, 64, 1), b(1000000, 64, 1), c(1000000, 64, 2);
  int equal = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a.train_start(i), b.train_start(i));
    equal += a.train_start(i) == c.train_start(i);
  }
  EXPECT_LT(equal, 3);
}

TEST(Sampler, ValidationWindowsFollowEachOtherWithinTheLastTenth) {
  const WindowSampler sampler(1000, 9, 1);
  ASSERT_EQ(sampler.validation_windows(), 11u);  // (100 - 1) / 9
  for (uint64_t w = 0; w < 11; ++w) EXPECT_EQ(sampler.validation_start(w), 900 + 9 * w);
  EXPECT_LE(sampler.validation_start(10) + 10, 1000u);
  EXPECT_EQ(sampler.validation_start(11), 900u);
  EXPECT_EQ(sampler.validation_batches(4, 100), 2u);
  EXPECT_EQ(sampler.validation_batches(4, 1), 1u);
  EXPECT_EQ(sampler.validation_batches(100, 100), 1u);
}

TEST(Sampler, RefusesTextsShorterThanAWindowInEitherPart) {
  EXPECT_NO_THROW(WindowSampler(90, 8, 1));
  EXPECT_THROW(WindowSampler(89, 8, 1), ConfigError);
  EXPECT_THROW(WindowSampler(0, 8, 1), ConfigError);
  EXPECT_THROW(WindowSampler(1000, 0, 1), ConfigError);
  EXPECT_THROW(WindowSampler(1000, 0xffffffffu, 1), ConfigError);
}

}  // namespace
}  // namespace strata
