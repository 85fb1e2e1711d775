#include "train/step_rate.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"

namespace strata {
namespace {

SessionConfig small_config() {
  SessionConfig c;
  c.model = "gpt2:L1,D16,H2,V20,T8";
  c.shape = {2, 8, 3};
  c.policy = "lru";
  return c;
}

TEST(StepRate, TimesWholeStepsWithEverythingResident) {
  StepRate rate(small_config(), 1e-3);
  EXPECT_EQ(rate.workload().config().policy, "resident");
  EXPECT_EQ(rate.tokens(), 48u);
  const uint64_t before = rate.steps();
  EXPECT_GT(rate.measure(0), 0);
  EXPECT_GT(rate.steps(), before);  // and one to warm up, where steps are short
}

TEST(StepRate, RefusesStepsThatWereSkipped) {
  EXPECT_THROW(
      {
        StepRate rate(small_config(), 1e30);
        rate.measure(0);
      },
      NonFinite);
}

TEST(StepRate, SaysWhatIsWrongWithTheModel) {
  SessionConfig c = small_config();
  c.shape.seq = 9;
  EXPECT_THROW(StepRate(c, 1e-3), ConfigError);
}

}  // namespace
}  // namespace strata
