#include "offload/nvme/rate_limit.hpp"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(RateLimit, TransfersGoOneAfterAnother) {
  RateLimit limit(1000);  // bytes a second
  EXPECT_TRUE(limit.limits());
  const int64_t first = limit.end_of(500, 100 * kSecond);
  EXPECT_EQ(first, 100 * kSecond + kSecond / 2 - RateLimit::kKept);
  EXPECT_EQ(limit.end_of(250, 100 * kSecond), first + kSecond / 4);
  EXPECT_EQ(limit.end_of(250, 100 * kSecond + kSecond / 4), first + kSecond / 2);
}

TEST(RateLimit, TimeThatNobodyUsedIsHardlyKept) {
  RateLimit limit(1000);
  limit.end_of(1, 0);
  EXPECT_EQ(limit.end_of(1000, 50 * kSecond), 51 * kSecond - RateLimit::kKept);
}

TEST(RateLimit, IsOffAtZero) { EXPECT_FALSE(RateLimit(0).limits()); }

}  // namespace
}  // namespace strata
