#include "offload/simulator.hpp"

#include <gtest/gtest.h>

#include "offload/roofline.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

constexpr const char* kPolicies[] = {"resident",       "lru",    "belady", "static:w=0.5,o=0.25",
                                     "static:w=0,o=0", "gemini", "auto"};

Config config(const char* policy, double memory = 0, double clip = 0.5) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = policy;
  c.memory = memory;
  c.clip = clip;
  return c;
}

/// As the planner does, for so many steps.
struct Simulation {
  explicit Simulation(const Config& c, VirtualRates rates = {}, SimulationLength length = {3, 16})
      : plans(c), budgets(plans.budgets()), ledger(budgets.bytes) {
    PlanInput in = plans.input(budgets);
    in.rates = rates;
    planned = make_plan(in);
    const PlanInput run = {plans.layout,   plans.shape, plans.programs, *planned.policy,
                           *plans.updater, budgets,     c.clip,         rates};
    prediction = simulate(run, planned.plan, ledger, length, &log);
  }

  double work(Resource r) const { return prediction.work[static_cast<size_t>(r)]; }

  Plans plans;
  Budgets budgets;
  Ledger ledger;
  PlanResult planned;
  IssueLog log;
  Prediction prediction;
};

VirtualRates on_one_processor() {
  VirtualRates r;
  r.one_processor = true;
  r.nvme_mixed_bytes_per_second = 2.5e9;
  return r;
}

TEST(Simulator, WorkAndStallsAddUpToTheStep) {
  for (const char* policy : kPolicies) {
    for (const VirtualRates& rates : {VirtualRates(), on_one_processor()}) {
      for (const double clip : {0.0, 0.5}) {
        const Simulation s(config(policy, 0, clip), rates);
        const Prediction& p = s.prediction;
        EXPECT_GT(p.step_seconds, 0);
        EXPECT_NEAR(s.work(Resource::compute) + p.stalls.sum(), p.step_seconds,
                    1e-9 * p.step_seconds)
            << policy;
        if (!rates.one_processor) {
          EXPECT_NEAR(p.stalls.sharing, 0, 1e-12) << policy;
        }
        EXPECT_EQ(p.stalls.on[static_cast<size_t>(Resource::compute)], 0);
      }
    }
  }
}

TEST(Simulator, NoStepIsFasterThanItsRoofline) {
  for (const char* policy : kPolicies) {
    for (const double share : {0.5, 1.0}) {
      for (const VirtualRates& rates : {VirtualRates(), on_one_processor()}) {
        Config c = config(policy);
        c.host_share = share;
        const Simulation s(c, rates);
        const Roofline r = roofline(s.prediction.work, rates);
        EXPECT_GT(r.seconds, 0);
        EXPECT_LE(r.seconds, s.prediction.step_seconds * (1 + 1e-9)) << policy << " " << share;
      }
    }
  }
}

TEST(Simulator, WithEverythingResidentComputeIsTheRoofline) {
  const Simulation s(config("resident"));
  const Prediction& p = s.prediction;
  EXPECT_NEAR(s.work(Resource::compute), p.step_seconds, 1e-9 * p.step_seconds);
  EXPECT_NEAR(p.stalls.sum(), 0, 1e-12);
  EXPECT_EQ(p.demand_misses + p.prefetches + p.evictions, 0u);
  EXPECT_GT(p.hits, 0u);
  EXPECT_GT(p.updates, 0u);
  EXPECT_EQ(p.h2d_bytes + p.nvme_read_bytes + p.nvme_write_bytes, 0u);
}

/// A step of the same plan where each waits until the one before has ended everywhere.
double seconds_of_a_step_alone(const Simulation& s, const VirtualRates& rates) {
  VirtualBackend backend(rates);
  Ledger ledger(s.budgets.bytes);
  EngineOptions options;
  options.clip = s.plans.config.clip;
  Engine engine(backend, s.plans.layout, s.plans.shape, s.planned.plan, *s.plans.policy,
                *s.plans.updater, s.plans.programs, ledger, options);
  engine.zero_state();
  for (ParamId p = 0; p < s.plans.layout.params().size(); ++p) {
    if (s.plans.layout.storage_of(p) == p) engine.set_weight(p, {});
  }
  double start = 0;
  for (uint64_t step = 0; step < 5; ++step) {
    backend.drain();
    start = backend.now();
    engine.begin(0, {step, 0, 1});
    engine.run_program();
    engine.end();
  }
  backend.drain();
  return backend.now() - start;
}

TEST(Simulator, StepsOverlap) {
  // The outcome of a step is on its way to the host for a while; the next need not wait for it.
  VirtualRates rates;
  rates.d2h_bytes_per_second = 1e7;
  const Simulation s(config("resident"), rates);
  EXPECT_LT(s.prediction.step_seconds, 0.95 * seconds_of_a_step_alone(s, rates));
}

TEST(Simulator, WhatIsSlowIsWhatIsWaitedFor) {
  VirtualRates rates;
  rates.h2d_bytes_per_second = 1e6;
  const Simulation s(config("lru"), rates);
  const Prediction& p = s.prediction;
  const double on_link = p.stalls.on[static_cast<size_t>(Resource::h2d)];
  EXPECT_GT(on_link, 0.7 * p.step_seconds);
  EXPECT_EQ(roofline(p.work, rates).bottleneck, "h2d");
  EXPECT_NEAR(s.work(Resource::h2d), static_cast<double>(p.h2d_bytes) / 1e6, 0.05 * on_link);
}

TEST(Simulator, KnownSecondsReplaceRates) {
  Config c = config("resident");
  Simulation at_rates(c);
  Trace trace = at_rates.plans.model.trace(true);
  double known = 0;
  for (TraceSegment& segment : trace.segments) {
    for (TraceOp& op : segment.ops) known += op.seconds = 0.25;
  }
  Plans& plans = at_rates.plans;
  const Program program = Program::lower(trace, plans.layout, {1, {}});
  PlanInput in = plans.input(at_rates.budgets);
  in.programs = {&program};
  Ledger ledger(at_rates.budgets.bytes);
  const PlanResult r = make_plan(in);
  const Prediction p = simulate(in, r.plan, ledger, {1, 2});
  EXPECT_GT(p.step_seconds, known);
  EXPECT_LT(p.step_seconds, known + at_rates.prediction.step_seconds);
}

TEST(Simulator, FetchesAreCountedByHowTheyEnd) {
  VirtualRates slow, fast;
  slow.h2d_bytes_per_second = 1e6;
  fast.h2d_bytes_per_second = 1e15;
  fast.latency_seconds = 0;
  fast.memory_bytes_per_second = 1e6;
  for (const char* policy : {"belady", "static:w=0,o=0"}) {
    const Prediction late = Simulation(config(policy), slow).prediction;
    const Prediction early = Simulation(config(policy), fast).prediction;
    EXPECT_GT(late.prefetches, 0u) << policy;
    EXPECT_EQ(late.prefetches, early.prefetches) << "timing decides nothing";
    EXPECT_EQ(late.hits, early.hits);
    EXPECT_EQ(late.demand_misses, early.demand_misses);
    EXPECT_GT(late.late_prefetches, late.prefetches / 2) << policy;
    EXPECT_LE(late.late_prefetches, late.prefetches) << policy;
    EXPECT_LT(early.late_prefetches, late.late_prefetches) << policy;
  }
}

TEST(Simulator, WaitsForMissesAreNoLatePrefetches) {
  VirtualRates slow;
  slow.h2d_bytes_per_second = 1e6;
  const Simulation s(config("static:w=0,o=0"), slow);
  PlanInput in = s.plans.input(s.budgets);
  in.rates = slow;
  Plan plan = s.planned.plan;
  plan.actions.front().resize(1);
  Ledger ledger(s.budgets.bytes);
  const Prediction p = simulate(in, plan, ledger, {2, 4});
  EXPECT_EQ(p.prefetches, 1u);
  EXPECT_GT(p.demand_misses, 4u);
  EXPECT_LE(p.late_prefetches, 1u);
  EXPECT_GT(p.stalls.on[static_cast<size_t>(Resource::h2d)], 0.5 * p.step_seconds);
}

/// Fetches ahead of nothing: evicted again before the op that would use it.
TEST(Simulator, PrefetchesThatNobodyUsedAreWasted) {
  Config c = config("static:w=0,o=0", 1);
  const Simulation plain(c);
  EXPECT_EQ(plain.prediction.wasted_prefetches, 0u);
  PlanInput in = plain.plans.input(plain.budgets);
  Plan plan = plain.planned.plan;
  auto& actions = plan.actions.front();
  const ObjId object = actions.front().object;
  actions.insert(actions.begin(), {{Act::fetch, object, 0}, {Act::evict, object, 0}});
  Ledger ledger(plain.budgets.bytes);
  const Prediction p = simulate(in, plan, ledger, {2, 4});
  EXPECT_EQ(p.wasted_prefetches, 1u);
  EXPECT_EQ(p.prefetches, plain.prediction.prefetches + 1);
}

TEST(Simulator, TheMeanOfManyStepsIsThatOfOne) {
  for (const char* policy : kPolicies) {
    const Prediction few = Simulation(config(policy), {}, {3, 4}).prediction;
    const Prediction many = Simulation(config(policy), {}, {3, 20}).prediction;
    EXPECT_NEAR(few.step_seconds, many.step_seconds, 0.02 * many.step_seconds) << policy;
    EXPECT_EQ(few.h2d_bytes, many.h2d_bytes) << policy;
    EXPECT_EQ(few.d2h_bytes, many.d2h_bytes) << policy;
  }
}

TEST(Simulator, PeaksAreThoseOfThePlan) {
  for (const char* policy : kPolicies) {
    const Simulation s(config(policy, 0.3));
    for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
      EXPECT_EQ(s.ledger.peak(t), s.planned.tiers[static_cast<size_t>(t)].peak) << policy;
    }
  }
}

TEST(Simulator, APlanIsSimulatedAsLongAsWasAskedFor) {
  for (const char* policy : {"lru", "auto"}) {
    const Plans plans(config(policy));
    PlanInput in = plans.input(plans.budgets());
    in.simulation = {3, 16};
    const PlanResult r = make_plan(in);
    EXPECT_EQ(r.prediction.step_seconds, Simulation(config(policy)).prediction.step_seconds);
    in.simulation = {};
    EXPECT_EQ(make_plan(in).plan.hash(), r.plan.hash()) << "which changes no plan";
  }
}

}  // namespace
}  // namespace strata::toy
