#include "offload/planner.hpp"

#include <gtest/gtest.h>

#include <string>

#include "runtime/errors.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

constexpr size_t kPlenty = size_t{1} << 32;
const std::vector<std::string> kPolicies = every_policy({"static:w=0,o=0", "static:w=1,o=0.5"});

Config config(const std::string& policy) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = policy;
  return c;
}

/// The smallest budgets, externals included.
Budgets smallest(const Plans& plans, const std::array<size_t, kTiers>& external = {}) {
  Budgets b{{kPlenty, kPlenty, 0}, external};
  b.bytes = make_plan(plans.input(b)).minimum;
  return b;
}

TEST(Planner, TheMinimumFitsAndOneByteLessDoesNot) {
  for (const std::string& policy : kPolicies) {
    const Plans plans(config(policy));
    const Budgets least = smallest(plans);
    const PlanResult fits = make_plan(plans.input(least));
    EXPECT_TRUE(fits.fits) << policy;
    EXPECT_EQ(fits.minimum, least.bytes) << policy;
    EXPECT_LE(fits.tiers[0].peak, least.bytes[0]) << policy;

    Budgets less = least;
    less.bytes[0] -= 1;
    const PlanResult r = make_plan(plans.input(less));
    ASSERT_FALSE(r.fits) << policy;
    ASSERT_EQ(r.shortfall.size(), 1u);
    EXPECT_EQ(r.shortfall[0].tier, Tier::device);
    EXPECT_EQ(r.shortfall[0].bytes, 1u) << policy;
    EXPECT_TRUE(r.plan.actions.empty());
  }
}

TEST(Planner, ShortfallsAreExactOnBothTiers) {
  const Plans plans(config("static:w=0,o=0"));
  const Budgets least = smallest(plans);
  Budgets b = least;
  b.bytes[0] -= 12345;
  b.bytes[1] -= 777;
  const PlanResult r = make_plan(plans.input(b));
  ASSERT_EQ(r.shortfall.size(), 2u);
  EXPECT_EQ(r.shortfall[0].tier, Tier::device);
  EXPECT_EQ(r.shortfall[0].bytes, 12345u);
  EXPECT_EQ(r.shortfall[1].tier, Tier::host);
  EXPECT_EQ(r.shortfall[1].bytes, 777u);
  const std::string text = describe_shortfall(r);
  for (const std::string& part :
       {std::string("device"), std::string("host"), std::string("12345"), std::string("777"),
        std::to_string(b.bytes[0]), std::to_string(least.bytes[1])}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Planner, AShortHostIsReportedHoweverLargeTheDeviceIs) {
  for (const char* policy : {"static:w=0,o=0", "static"}) {
    const Plans plans(config(policy));
    Budgets b = smallest(plans);
    b.bytes[0] = kPlenty;
    b.bytes[1] -= 1;
    const PlanResult r = make_plan(plans.input(b));
    ASSERT_FALSE(r.fits);
    ASSERT_EQ(r.shortfall.size(), 1u);
    EXPECT_EQ(r.shortfall[0].tier, Tier::host);
    EXPECT_EQ(r.shortfall[0].bytes, 1u);
  }
}

TEST(Planner, WithNothingAtAllItStillSaysWhatWouldDo) {
  for (const std::string& policy : kPolicies) {
    const Plans plans(config(policy));
    const PlanResult r = make_plan(plans.input({}));
    ASSERT_FALSE(r.fits);
    EXPECT_TRUE(make_plan(plans.input({r.minimum, {}})).fits) << policy;
    EXPECT_GT(r.tiers[0].peak, 0u) << "figures of the smallest budgets that would do";
  }
}

TEST(Planner, ExternalsAreCharged) {
  for (const std::string& policy : kPolicies) {
    const Plans plans(config(policy));
    const Budgets bare = smallest(plans);
    const std::array<size_t, kTiers> external = {1000, 5000, 0};
    const Budgets with = smallest(plans, external);
    EXPECT_EQ(with.bytes[0], bare.bytes[0] + 1000) << policy;
    EXPECT_EQ(with.bytes[1], bare.bytes[1] + 5000) << policy;
    const PlanResult r = make_plan(plans.input(with));
    ASSERT_TRUE(r.fits);
    for (const size_t t : {0u, 1u}) {
      EXPECT_EQ(r.tiers[t].by_category[static_cast<size_t>(Category::external)], external[t]);
      EXPECT_EQ(r.tiers[t].peak, make_plan(plans.input(bare)).tiers[t].peak + external[t]);
    }
    Budgets without_room = bare;
    without_room.external[0] = 1000;
    const PlanResult refused = make_plan(plans.input(without_room));
    ASSERT_FALSE(refused.fits) << policy;
    EXPECT_EQ(refused.shortfall[0].bytes, 1000u);
  }
}

TEST(Planner, ResidentRefusesWhatDoesNotFit) {
  const Plans resident(config("resident")), lru(config("lru"));
  const Budgets least = smallest(lru);
  EXPECT_TRUE(make_plan(lru.input(least)).fits);
  const PlanResult r = make_plan(resident.input(least));
  ASSERT_FALSE(r.fits);
  EXPECT_EQ(r.shortfall[0].bytes, smallest(resident).bytes[0] - least.bytes[0]);
  EXPECT_EQ(r.minimum[1], 0u) << "nothing is on the host";
}

TEST(Planner, IsPure) {
  for (const std::string& policy : kPolicies) {
    const Plans plans(config(policy));
    Budgets b = smallest(plans);
    b.bytes[0] += 3 * plans.shape.unit_bytes() + 17;
    const PlanResult a = make_plan(plans.input(b)), again = make_plan(plans.input(b));
    EXPECT_EQ(a.plan.hash(), again.plan.hash());
    EXPECT_EQ(a.prediction.step_seconds, again.prediction.step_seconds);
    EXPECT_EQ(a.prediction.h2d_bytes, again.prediction.h2d_bytes);
    for (size_t t = 0; t < kTiers; ++t) {
      EXPECT_EQ(a.tiers[t].peak, again.tiers[t].peak);
      EXPECT_EQ(a.tiers[t].by_category, again.tiers[t].by_category);
    }
  }
}

TEST(Planner, CategoriesAddUpToThePeakWhereNothingMoves) {
  const Plans plans(config("resident"));
  const PlanResult r = make_plan(plans.input(smallest(plans)));
  size_t sum = 0;
  for (const size_t n : r.tiers[0].by_category) sum += n;
  EXPECT_EQ(sum, r.tiers[0].peak);
  EXPECT_EQ(r.prediction.h2d_bytes, 0u);
  EXPECT_EQ(r.prediction.demand_misses, 0u);
  EXPECT_GT(r.prediction.step_seconds, 0.0);
}

TEST(Planner, PredictsTheBytesOfAStep) {
  Config c = config("lru");
  c.memory = 0;
  c.keep_log = false;
  Rig rig(c);
  EngineStats before;
  for (uint64_t s = 0; s < 4; ++s) {
    before = rig.engine->stats();
    rig.step(s);
    rig.engine->result(0);
  }
  // From one `end` to the next: one step's forward, backward and the updates of the last.
  EXPECT_EQ(rig.engine->stats().d2h_bytes - before.d2h_bytes, rig.planned.prediction.d2h_bytes);
  EXPECT_EQ(rig.engine->stats().h2d_bytes - before.h2d_bytes, rig.planned.prediction.h2d_bytes);
}

TEST(Planner, MoreMemoryMovesFewerBytes) {
  const Plans plans(config("lru"));
  Budgets b = smallest(plans);
  const uint64_t least = make_plan(plans.input(b)).prediction.h2d_bytes;
  b.bytes[0] = kPlenty;
  EXPECT_LT(make_plan(plans.input(b)).prediction.h2d_bytes, least);
}

}  // namespace
}  // namespace strata::toy
