// How near `auto` comes to the bounds: some of what bench/plan_quality looks at.
#include "tests/offload/plan_quality.hpp"

#include <gtest/gtest.h>

#include "offload/policy/auto.hpp"
#include "tests/offload/random_trace.hpp"
#include "tests/sanitized.hpp"

namespace strata {
namespace {

PlanCase random_case(uint64_t seed, bool small, Below below) {
  TraceWorkloadConfig config;
  config.chunk_bytes = kRandomChunkBytes;
  const double device = static_cast<double>(seed * 61 % 97) / 97;
  const double host = 0.1 + static_cast<double>(seed * 37 % 89) / 89;
  return {random_trace(seed, small), config, below, device, host, rates_without_latency(below)};
}

TEST(PlanQuality, TransfersAreNearTheBound) {
  for (const Below below : kEveryBelow) {
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const auto b = random_case(seed, kSanitized, below).bytes();
      ASSERT_TRUE(b.has_value()) << seed;
      EXPECT_GE(b->cost, b->bound * (1 - 1e-9)) << name_of(below) << ", seed " << seed;
      EXPECT_LE(b->over_bar(), 1) << name_of(below) << ", seed " << seed;
      if (below == Below::both || b->units < 100) continue;
      EXPECT_LE(b->cost, 1.02 * b->bound) << name_of(below) << ", seed " << seed;
    }
  }
}

TEST(PlanQuality, TransfersOfSmallStepsAreTheLeastThereAre) {
  for (const Below below : kEveryBelow) {
    for (uint64_t seed = 0; seed < (kSanitized ? 1 : 4); ++seed) {
      const auto b = random_case(seed, true, below).bytes(2000);
      ASSERT_TRUE(b.has_value() && b->optimum.has_value()) << seed;
      EXPECT_LE(b->cost, 1.02 * *b->optimum) << name_of(below) << ", seed " << seed;
    }
  }
}

TEST(PlanQuality, NoOtherPolicyIsFasterAndNoneBeatsTheBound) {
  for (const Below below : kEveryBelow) {
    const auto t = random_case(0, kSanitized, below).with_compute(1).time(true);
    ASSERT_TRUE(t.has_value());
    EXPECT_TRUE(t->best) << name_of(below);
    EXPECT_GE(t->step, t->bound * (1 - 1e-9)) << name_of(below);
  }
}

TEST(PlanQuality, TheBoundKnowsWhatAChunkWaitsForBelowTheDevice) {
  for (const Below below : {Below::host, Below::both}) {
    const auto t = random_case(3, kSanitized, below).with_compute(0.25).time(false);
    ASSERT_TRUE(t.has_value());
    EXPECT_GE(t->step, t->bound * (1 - 1e-9)) << name_of(below);
    // Without gradients going down, updates beside compute and weights coming back: 6 times.
    EXPECT_LE(t->step, 2 * t->bound) << name_of(below);
  }
}

TEST(PlanQuality, LargeStepsArePlannedWithoutLinearProgramsAndThatIsSaid) {
  TraceWorkloadConfig config;
  config.chunk_bytes = kRandomChunkBytes;
  const TraceFile trace = random_trace(1, false);
  const AutoPolicy policy;
  const auto remark = [&](uint32_t micro_batches) {
    config.micro_batches = micro_batches;
    const TraceWorkload w(trace, config);
    const size_t plenty = size_t{1} << 40;
    const PlanInput input = w.input(policy, {{plenty, plenty, 0}, {}}, 0, VirtualRates{});
    const PlacementInput in = placement_input(input);
    const bool few = policy.candidates(in).size() < policies().size();
    EXPECT_EQ(few, !policy.remark(in).empty());
    return policy.remark(in);
  };
  EXPECT_EQ(remark(1), "");
  EXPECT_NE(remark(200).find("linear programs"), std::string::npos);
}

}  // namespace
}  // namespace strata
