// Plans give speed, never correctness: random wrong plans finish and change no number.
#include <gtest/gtest.h>

#include <random>

#include "tests/offload/toy_run.hpp"
#include "tests/sanitized.hpp"

namespace strata::toy {
namespace {

/// Hints at random: absurd objects, orders and times.
std::vector<Action> random_actions(std::mt19937_64& random, uint32_t chunks, size_t ops) {
  std::vector<Action> actions(1 + random() % 60);
  for (Action& a : actions) {
    a.act = static_cast<Act>(random() % 4);
    a.object = {static_cast<ChunkId>(random() % chunks), static_cast<Plane>(random() % kPlanes)};
    a.issue_before = static_cast<OpIndex>(random() % ops);
  }
  actions[0].object.plane = Plane::remainder;  // never moves: at least one hint is wrong
  std::sort(actions.begin(), actions.end(),
            [](const Action& a, const Action& b) { return a.issue_before < b.issue_before; });
  return actions;
}

/// Each plane by itself.
void scatter_homes(std::mt19937_64& random, Place below, Plan& plan) {
  for (ChunkPlacement& c : plan.chunks) {
    const bool whole = random() % 3 == 0;
    for (Place& home : c.homes) home = whole || random() % 4 == 0 ? Place::device : below;
  }
}

void scatter_updates(std::mt19937_64& random, Plan& plan) {
  for (ChunkPlacement& c : plan.chunks) {
    c.keep_grad = static_cast<KeepGrad>(random() % 3);
    c.defers_update = random() % 2 == 0;
    c.speculates = c.speculates && random() % 2 == 0;
  }
}

/// 25,000 virtual runs a case (a tenth under sanitizers), of two steps and an evaluation each, with
/// random durations.
class WrongPlans : public ::testing::TestWithParam<int> {};

TEST_P(WrongPlans, FinishInVirtualTime) {
  const auto seed = static_cast<uint64_t>(GetParam());
  std::mt19937_64 random(seed);
  Model model({2, 24, 90, 2, seed % 2 == 0 ? DType::f32 : DType::bf16});
  const ChunkLayout layout = ChunkLayout::build(model.params(), {2048, 1});
  const Program train =
      Program::lower(model.trace(true), layout, {static_cast<uint32_t>(1 + seed / 2), {}});
  const Program eval = Program::lower(model.trace(false), layout, {1, {}});
  const OptimizerConfig optimizer;
  const StateShape shape(layout, train, optimizer);
  const auto updater = make_updater(optimizer, layout.params());
  constexpr const char* kPolicies[] = {"lru", "static:w=0,o=0", "belady", "static:w=0.3,o=0"};
  const auto policy = make_policy(kPolicies[seed]);
  PlanInput in{layout, shape, {&train, &eval}, *policy, *updater, {}, seed < 2 ? 0.0 : 1.0, {}};
  // The last two with all state below the device on NVMe.
  in.budgets.bytes[0] = size_t{1} << 30;
  in.budgets.bytes[seed < 2 ? 1 : 2] = size_t{1} << 30;
  const PlanResult wide = make_plan(in);
  ASSERT_TRUE(wide.fits);
  in.budgets.bytes = wide.minimum;
  const PlanResult tight = make_plan(in);
  ASSERT_TRUE(tight.fits);

  const int runs = kSanitized ? 2500 : 25000;
  for (int run = 0; run < runs; ++run) {
    Plan plan = tight.plan;
    plan.actions = {random_actions(random, layout.chunks(), train.ops().size()),
                    random_actions(random, layout.chunks(), eval.ops().size())};
    std::array<size_t, kTiers> limits = in.budgets.bytes;
    if (run % 2 == 1) {
      scatter_homes(random, seed < 2 ? Place::host : Place::nvme, plan);
      for (ChunkPlacement& c : plan.chunks) c.speculates = seed >= 2;
      scatter_updates(random, plan);
      plan.need = memory_need(layout, shape, in.programs, plan.chunks, plan.staging);
      plan.device_units = plan.need.device_units();
      plan.host_units = plan.need.host_units;
      plan.nvme_units = plan.need.nvme_units;
      limits = {plan.device_units * shape.unit_bytes() + plan.need.non_model_bytes,
                plan.host_units * shape.unit_bytes(), plan.nvme_units * shape.unit_bytes()};
    }
    in.rates.delay_seed = random() | 1;
    Ledger ledger(limits);
    EngineOptions options;
    options.clip = in.clip;
    VirtualBackend backend(in.rates);
    Engine engine(backend, layout, shape, plan, *policy, *updater, in.programs, ledger, options);
    engine.zero_state();
    for (ParamId p = 0; p < layout.params().size(); ++p) engine.set_weight(p, {});
    for (uint64_t step = 0; step < 2; ++step) {
      engine.assume_unexpected(random() % 2 == 0);
      engine.begin(0, {step, 0, 1});
      engine.run_program();
      engine.end();
    }
    engine.begin(1);
    engine.run_program();
    engine.end();
    engine.flush();
    ASSERT_GT(engine.stats().demand_misses + engine.stats().hints_skipped, 0u) << run;
    for (size_t t = 0; t < kTiers; ++t) ASSERT_LE(ledger.peak(static_cast<Tier>(t)), limits[t]);
    uint64_t trained = 0;
    for (ChunkId c = 0; c < layout.chunks(); ++c) trained += shape.trained(c);
    ASSERT_EQ(engine.stats().updates, 2 * trained) << "each chunk is updated once a step";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, WrongPlans, ::testing::Range(0, 4));

TEST(ConcurrencyWrongPlans, TwoHundredRealRunsEqualResident) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const uint32_t accum : {1u, 2u}) {
      Config c;
      c.shape = {3, 40, 100, 6, dtype};
      c.steps = 2;
      c.accum = accum;
      c.clip = accum == 1 ? 0 : 0.5;
      c.evaluate = true;
      const Outcome reference = run(c);
      std::mt19937_64 random(42 + accum);
      for (int i = 0; i < 50; ++i) {
        constexpr const char* kPolicies[] = {"lru", "static:w=0.3,o=0.3", "belady", "gemini:n=2"};
        c.policy = kPolicies[random() % 4];
        c.host_share = i % 5 == 0 ? 0 : 1;
        c.overlap = OptimizerOverlap::automatic;
        if (i % 10 == 0 && c.clip > 0) c.overlap = OptimizerOverlap::speculative;
        c.memory = i % 4 < 2 ? 0 : 0.2;
        c.threads = 1 + static_cast<uint32_t>(i % 3);
        c.delay_seed = random() | 1;
        c.tamper = [&](const std::vector<const Program*>& programs, Plan& plan) {
          scatter_updates(random, plan);
          plan.actions.clear();
          for (const Program* p : programs) {
            plan.actions.push_back(
                random_actions(random, static_cast<uint32_t>(plan.chunks.size()), p->ops().size()));
          }
        };
        const Outcome o = run(c);
        ASSERT_TRUE(o.same_numbers(reference)) << "run " << i << " " << c.policy;
        ASSERT_GT(o.stats.demand_misses + o.stats.hints_skipped, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace strata::toy
