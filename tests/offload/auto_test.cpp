// What `auto` promises: never slower than any other policy, exactly the planned traffic, bounds.
#include "offload/policy/auto.hpp"

#include <gtest/gtest.h>

#include "offload/bound.hpp"
#include "offload/policy/planned.hpp"
#include "tests/offload/toy_rig.hpp"
#include "tests/sanitized.hpp"

namespace strata::toy {
namespace {

struct Case {
  DType dtype;
  double clip;
  uint32_t accum;
  double host_share, memory;
  uint32_t staging;  // device units
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double clip : {0.0, 0.5}) {
      for (const uint32_t accum : {1u, 2u}) {
        for (const double share : {0.0, 0.5, 1.0}) {
          for (const double memory : {0.0, 0.5}) {
            // A case of each kind is enough.
            if ((accum == 2) != (clip > 0) || (memory == 0) != (dtype == DType::f32)) continue;
            out.push_back({dtype, clip, accum, share, memory, memory == 0 ? 2u : 0u});
          }
        }
      }
    }
  }
  return out;
}

Config config(const Case& k, const std::string& policy) {
  Config c;
  c.shape = {8, 40, 100, 6, k.dtype};
  c.clip = k.clip;
  c.accum = k.accum;
  c.host_share = k.host_share;
  c.memory = k.memory;
  c.policy = policy;
  return c;
}

TEST(Auto, IsNeverSlowerThanAnyOtherPolicyAndNeverBelowTheBounds) {
  for (const Case& k : cases()) {
    const Plans plans(config(k, "auto"));
    const Budgets budgets = plans.budgets();
    PlanInput in = plans.input(budgets);
    const PlanResult best = make_plan(in);
    ASSERT_TRUE(best.fits);
    const Bound bound = bound_of(in);
    ASSERT_TRUE(bound.feasible);
    EXPECT_GE(best.prediction.step_seconds, bound.step_seconds * (1 - 1e-9));
    EXPECT_GE(transfer_seconds(best.prediction, in.rates), bound.transfer_seconds * (1 - 1e-9));
    for (const std::string& policy : every_policy({"static:w=0,o=0", "auto:defer=0.3,staging=4"})) {
      const Plans others(config(k, policy));
      const PlanResult other = make_plan(others.input(budgets));
      if (!other.fits || policy == "static:w=0,o=0") continue;
      EXPECT_LE(best.prediction.step_seconds, other.prediction.step_seconds * (1 + 1e-9)) << policy;
    }
    if (k.accum == 2 || (kSanitized && k.dtype == DType::bf16)) continue;
    in.objective = Objective::bytes;
    const PlanResult least = make_plan(in);
    EXPECT_LE(transfer_seconds(least.prediction, in.rates),
              transfer_seconds(best.prediction, in.rates) * (1 + 1e-9));
    EXPECT_GE(transfer_seconds(least.prediction, in.rates), bound.transfer_seconds * (1 - 1e-9));
  }
}

TEST(Auto, TheEngineMovesExactlyWhatIsPlanned) {
  for (const Case& k : cases()) {
    const PlannedPolicy policy(0.3, k.staging);
    const Plans plans(config(k, policy.name()));
    const PlanInput in = plans.input(plans.budgets());
    const PlanResult planned = make_plan(in);
    ASSERT_TRUE(planned.fits);
    // The same linear program again: choices are not in a plan.
    const PlacementInput placement = placement_input(in);
    const Place staging = staging_of(placement);
    const StepModel model = model_step(plans.layout, plans.shape, plans.train,
                                       deferred_updates(placement, plans.train, 0.3), staging);
    Room room = room_of(placement, staging);
    room.device -= k.staging;
    const size_t unit = plans.shape.unit_bytes();
    const PlacementProgram program(model, room, link_costs(in.rates, unit));
    const auto choices = policy.choose(placement, model);
    ASSERT_FALSE(choices.empty());
    EXPECT_TRUE(program.fits(choices));
    const LinkUnits moves = program.moves_of(choices);
    const Prediction& p = planned.prediction;
    EXPECT_EQ(static_cast<double>(p.h2d_bytes), moves.h2d * static_cast<double>(unit));
    EXPECT_EQ(static_cast<double>(p.d2h_bytes), moves.d2h * static_cast<double>(unit));
    EXPECT_EQ(static_cast<double>(p.nvme_read_bytes), moves.nvme_read * static_cast<double>(unit));
    EXPECT_EQ(static_cast<double>(p.nvme_write_bytes),
              moves.nvme_write * static_cast<double>(unit));
  }
}

TEST(Bound, NothingFitsIsSaid) {
  const Plans plans(config({DType::f32, 0, 1, 1, 0, 2}, "lru"));
  Budgets budgets = plans.budgets();
  budgets.bytes[0] = plans.train.non_model_bytes();
  EXPECT_FALSE(bound_of(plans.input(budgets)).feasible);
}

TEST(Bound, WithEverythingResidentAStepIsItsComputeAndUpdates) {
  const Plans plans(config({DType::f32, 0, 1, 1, 1, 2}, "resident"));
  PlanInput in = plans.input({{size_t{1} << 32, size_t{1} << 32, 0}, {}});
  in.rates.one_processor = true;
  const Bound bound = bound_of(in);
  EXPECT_NEAR(bound.transfer_seconds, 0, 1e-15);
  const PlanResult resident = make_plan(in);
  EXPECT_LE(bound.step_seconds, resident.prediction.step_seconds);
  EXPECT_GE(bound.step_seconds, 0.5 * resident.prediction.step_seconds);
}

}  // namespace
}  // namespace strata::toy
