// When updates run changes no number: at the end of the step, in the next forward pass, in
// backward, or there before the norm is known, whether that turns out as expected or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "runtime/errors.hpp"
#include "tests/offload/toy_run.hpp"
#include "tests/sanitized.hpp"

namespace strata::toy {
namespace {

constexpr double kNeverClips = 1e6, kAlwaysClips = 1e-3;

Config base(DType dtype = DType::bf16) {
  Config c;
  c.shape = {3, 40, 100, 6, dtype};
  c.steps = 5;
  c.policy = "lru";
  c.memory = 0;
  c.host_share = 0;
  c.overlap = OptimizerOverlap::speculative;
  c.clip = kNeverClips;
  return c;
}

Outcome resident(Config c) {
  c.policy = "resident";
  c.host_share = 1;
  c.overlap = OptimizerOverlap::automatic;
  return run(c);
}

/// Clips some steps and not others, not the first.
double middling_clip(const Config& c) {
  const std::vector<double> norms = resident(c).norms;
  return norms.front() * 1.001;
}

TEST(EngineSpeculation, AnyOverlapEqualsResident) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double clip : {0.0, 0.05}) {
      Config c = base(dtype);
      c.clip = clip;
      c.evaluate = true;
      const Outcome reference = resident(c);
      c.delay_seed = 11;
      for (const OptimizerOverlap overlap :
           {OptimizerOverlap::none, OptimizerOverlap::forward, OptimizerOverlap::backward,
            OptimizerOverlap::speculative}) {
        if (clip > 0 && overlap == OptimizerOverlap::backward) continue;
        c.overlap = overlap;
        for (const char* policy : {"lru", "belady", "static:w=0.3,o=0.3", "gemini:n=2", "auto"}) {
          for (const double share : {0.0, 0.5}) {
            if (kSanitized && share != 0) continue;
            SCOPED_TRACE(std::string(name_of(overlap)) + " " + policy + " clip " +
                         std::to_string(clip) + " host " + std::to_string(share));
            c.policy = policy;
            c.host_share = share;
            const Outcome o = run(c);
            ASSERT_TRUE(o.plan.fits);
            EXPECT_TRUE(o.same_numbers(reference));
          }
        }
      }
    }
  }
}

TEST(EngineSpeculation, HoldsFailsAndHoldsAgainLikeResident) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Config c = base(dtype);
    c.steps = 8;
    for (const uint32_t accum : {1u, 2u}) {
      if (kSanitized && (accum == 2) != (dtype == DType::bf16)) continue;
      c.accum = accum;
      const double sometimes = middling_clip(c);
      for (const double clip : {kNeverClips, sometimes, kAlwaysClips}) {
        c.clip = clip;
        const Outcome reference = resident(c);
        for (const char* policy : {"lru", "belady", "auto", "auto:defer=0.4,staging=4"}) {
          for (const double memory : {0.0, 0.3}) {
            SCOPED_TRACE(std::string(policy) + " clip " + std::to_string(clip) + " accum " +
                         std::to_string(accum) + " memory " + std::to_string(memory) + " " +
                         name_of(dtype));
            if (kSanitized && memory != 0 && clip != sometimes) continue;
            c.policy = policy;
            c.memory = memory;
            c.delay_seed = 7 + accum;
            const Outcome o = run(c);
            EXPECT_TRUE(o.same_numbers(reference));
            for (size_t t = 0; t < kTiers; ++t) EXPECT_LE(o.peaks[t], o.plan.tiers[t].peak);
            if (o.plan.plan.speculating_chunks() == 0) {
              EXPECT_NE(memory, 0) << "the least memory moves everything";
              continue;
            }
            EXPECT_GT(o.stats.speculated_updates, 0u);
            EXPECT_EQ(o.stats.undone_updates != 0, clip != kNeverClips);
            if (clip == kAlwaysClips) {
              // Tried in the first step alone: what follows waits for its value.
              EXPECT_EQ(o.stats.undone_updates, o.stats.speculated_updates);
              EXPECT_LT(o.stats.speculated_updates, o.stats.updates / 4);
            } else if (clip == sometimes) {
              EXPECT_LT(o.stats.undone_updates, o.stats.speculated_updates);
            }
          }
        }
      }
    }
  }
}

TEST(EngineSpeculation, MovesNothingTwiceWhenItHolds) {
  // Gradients are written, since they might be needed again; else as without a step-wide value.
  Config c = base();
  c.virtual_time = true;
  c.policy = "lru";
  c.overlap = OptimizerOverlap::backward;
  c.clip = 0;
  const Outcome free = run(c);
  c.overlap = OptimizerOverlap::speculative;
  c.clip = kNeverClips;
  const Outcome o = run(c);
  const Plans plans(c);
  uint64_t grads = 0;
  for (ChunkId k = 0; k < plans.layout.chunks(); ++k) {
    grads += plans.shape.units({k, Plane::grad}) * plans.shape.unit_bytes();
  }
  EXPECT_EQ(o.stats.undone_updates, 0u);
  EXPECT_EQ(o.stats.updates, free.stats.updates);
  EXPECT_LE(o.stats.nvme_write_bytes, free.stats.nvme_write_bytes + c.steps * grads);
  EXPECT_LE(o.stats.nvme_read_bytes, free.stats.nvme_read_bytes + c.steps * grads / 2);
}

TEST(EngineSpeculation, WhatLivesOnTheDeviceIsKeptOlderOnNvme) {
  for (const double clip : {kNeverClips, kAlwaysClips}) {
    Config c = base();
    c.clip = clip;
    const Outcome reference = resident(c);
    const Plans plans(c);
    // Weights, and every second chunk's moments, at home on the device, all else on NVMe.
    c.tamper = [&plans](const std::vector<const Program*>& programs, Plan& plan) {
      for (ChunkId k = 0; k < plan.chunks.size(); ++k) {
        std::array<Place, kPlanes>& homes = plan.chunks[k].homes;
        homes[static_cast<size_t>(Plane::weight)] = Place::device;
        if (k % 2 == 0) homes[static_cast<size_t>(Plane::m)] = Place::device;
      }
      plan.need = memory_need(plans.layout, plans.shape, programs, plan.chunks, plan.staging);
      plan.device_units = plan.need.device_units();
      plan.nvme_units = plan.need.nvme_units;
    };
    c.memory = 4;  // of what the policy itself could use
    c.delay_seed = 9;
    const Outcome o = run(c);
    EXPECT_TRUE(o.same_numbers(reference)) << clip;
    EXPECT_GT(o.stats.speculated_updates, 0u);
    EXPECT_EQ(o.stats.undone_updates != 0, clip == kAlwaysClips);
  }
}

TEST(EngineSpeculation, TheRealOrderIsTheSimulatedOne) {
  for (const char* policy : {"lru", "belady", "auto"}) {
    Config c = base();
    c.policy = policy;
    c.delay_seed = 3;
    const Outcome real = run(c);
    c.virtual_time = true;
    const Outcome simulated = run(c);
    EXPECT_TRUE(real.log == simulated.log) << policy;
    EXPECT_GT(real.stats.speculated_updates, 0u);
  }
}

TEST(EngineSpeculation, WeightsThatAreNotFiniteAreNamedOnlyIfTheyStay) {
  Config c = base(DType::f32);
  c.lr = 1e38;
  c.optimizer.weight_decay = 0;
  for (const double clip : {kNeverClips, 1e-30}) {
    c.clip = clip;
    Config r = c;
    r.policy = "resident";
    r.host_share = 1;
    r.overlap = OptimizerOverlap::automatic;
    uint32_t named[2];
    for (const Config& config : {c, r}) {
      Rig rig(config);
      rig.step(0);
      rig.engine->flush();
      named[config.policy == "resident"] = rig.engine->result(0).nonfinite_weight;
    }
    EXPECT_EQ(named[0], named[1]) << clip;
  }
}

TEST(EngineSpeculation, AFailedStepStaysUndone) {
  Config c = base();
  c.delay_seed = 5;
  Rig rig(c);
  rig.step(0);
  rig.engine->flush();
  ASSERT_TRUE(rig.engine->result(0).applied);
  const auto params = rig.plans.layout.params();
  for (ParamId p = 0; p < params.size(); ++p) {
    if (params[p].name != "frozen") continue;
    rig.engine->set_weight(p, [](uint64_t, uint64_t n, float* out) {
      std::fill(out, out + n, std::numeric_limits<float>::quiet_NaN());
    });
  }
  const auto before = rig.state();
  for (uint64_t s = 1; s < 3; ++s) {
    rig.step(s);
    rig.engine->flush();
    const StepResult r = rig.engine->result(0);
    EXPECT_FALSE(r.applied);
    EXPECT_EQ(r.nonfinite_weight, UINT32_MAX);
    EXPECT_TRUE(rig.state() == before);
  }
  EXPECT_GT(rig.engine->stats().undone_updates, 0u);
}

TEST(EngineSpeculation, TwoVersionsMustFit) {
  Config c = base();
  const Plans plans(c);
  Budgets b = plans.budgets();
  const PlanResult two = make_plan(plans.input(b));
  ASSERT_TRUE(two.fits);
  uint32_t trained = 0;
  for (ChunkId k = 0; k < plans.layout.chunks(); ++k) trained += plans.shape.trained(k) ? 1 : 0;
  EXPECT_EQ(two.plan.speculating_chunks(), trained);
  b.bytes[2] = two.minimum[2] - plans.shape.unit_bytes();
  const PlanResult less = make_plan(plans.input(b));
  EXPECT_FALSE(less.fits);
  ASSERT_EQ(less.shortfall.size(), 1u);
  EXPECT_EQ(less.shortfall[0].tier, Tier::nvme);
  // Left to the planner, one version is enough.
  c.overlap = OptimizerOverlap::automatic;
  EXPECT_TRUE(make_plan(Plans(c).input(b)).fits);
}

TEST(EngineSpeculation, BackwardAloneCannotClip) {
  Config c = base();
  c.overlap = OptimizerOverlap::backward;
  EXPECT_THROW(Plans(c).budgets(), ConfigError);
  c.clip = 0;
  EXPECT_TRUE(make_plan(Plans(c).input(Plans(c).budgets())).fits);
}

TEST(EngineSpeculation, APlanThatCannotIsRefused) {
  Config c = base();
  c.host_share = 1;
  c.overlap = OptimizerOverlap::forward;
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) {
    plan.chunks.front().speculates = true;
  };
  EXPECT_THROW(Rig{c}, StateError);
}

}  // namespace
}  // namespace strata::toy
