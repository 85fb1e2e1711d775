#include "train/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace strata {
namespace {

TEST(Schedule, WarmsUpLinearlyThenFollowsACosine) {
  const LrSchedule s{1e-3, 1e-4, 50, 1000};
  EXPECT_DOUBLE_EQ(s.at(0), 1e-3 / 50);
  EXPECT_DOUBLE_EQ(s.at(24), 0.5e-3);
  EXPECT_DOUBLE_EQ(s.at(49), 1e-3);
  for (uint64_t step = 50; step < 1000; ++step) {
    const double x = static_cast<double>(step - 50) / 950.0;
    const double expected = 1e-4 + 9e-4 * 0.5 * (1 + std::cos(std::numbers::pi * x));
    ASSERT_NEAR(s.at(step), expected, 1e-18) << step;
  }
  EXPECT_DOUBLE_EQ(s.at(525), 5.5e-4);  // half-way
}

TEST(Schedule, EndsAtTheMinimum) {
  const LrSchedule s{1e-3, 1e-4, 0, 10};
  EXPECT_DOUBLE_EQ(s.at(0), 1e-3);
  EXPECT_GT(s.at(9), 1e-4);
  EXPECT_EQ(s.at(10), 1e-4);
  EXPECT_EQ(s.at(1000), 1e-4);
}

TEST(Schedule, WarmUpMayFillTheRun) {
  const LrSchedule s{1.0, 0.0, 4, 4};
  EXPECT_DOUBLE_EQ(s.at(3), 1.0);
  EXPECT_EQ(s.at(4), 0.0);
}

TEST(Schedule, IsConstantWhenMinimumAndRateAreEqual) {
  const LrSchedule s{2e-4, 2e-4, 0, 7};
  for (uint64_t step = 0; step < 9; ++step) EXPECT_EQ(s.at(step), 2e-4);
}

}  // namespace
}  // namespace strata
