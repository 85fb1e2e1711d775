// The flow of steps: run-ahead, evaluation and flushes between them, weights set while running.
#include <gtest/gtest.h>

#include "tests/offload/toy_run.hpp"

namespace strata::toy {
namespace {

const std::vector<std::string> kPolicies = every_policy({"gemini:n=2"});

Config config(const std::string& policy, double clip) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = policy;
  c.memory = 0;
  c.clip = clip;
  c.delay_seed = 5;
  return c;
}

TEST(EngineFlow, RunAheadChangesNeitherNumbersNorOrder) {
  for (const std::string& policy : kPolicies) {
    for (const double clip : {0.0, 0.5}) {
      Config c = config(policy, clip);
      const Outcome reference = run(c);
      for (const uint32_t ahead : {0u, 1u, 3u, 1000u}) {
        c.run_ahead = ahead;
        const Outcome o = run(c);
        EXPECT_TRUE(o.same_numbers(reference)) << policy << " " << ahead;
        EXPECT_TRUE(o.log == reference.log) << policy << " " << ahead;
        EXPECT_EQ(o.peaks, reference.peaks);
      }
    }
  }
}

TEST(EngineFlow, EvaluationSeesPendingUpdates) {
  for (const std::string& policy : kPolicies) {
    for (const double clip : {0.0, 0.5}) {
      Rig pending(config(policy, clip)), flushed(config(policy, clip));
      double last = 0;
      for (uint64_t s = 0; s < 3; ++s) {
        pending.step(s);
        pending.engine->result(0);
        pending.fill_batch(9);
        pending.evaluate();
        flushed.step(s);
        flushed.engine->flush();
        flushed.engine->result(0);
        flushed.fill_batch(9);
        flushed.evaluate();
        const double loss = pending.engine->evaluation_loss();
        EXPECT_EQ(loss, flushed.engine->evaluation_loss()) << policy << " clip " << clip;
        EXPECT_NE(loss, last) << "the step changed the weights";
        last = loss;
      }
      EXPECT_TRUE(pending.state() == flushed.state());
    }
  }
}

TEST(EngineFlow, EvaluationsInARowAreEqual) {
  Rig rig(config("lru", 0.5));
  rig.step(0);
  rig.evaluate();
  const double first = rig.engine->evaluation_loss();
  rig.evaluate();
  rig.evaluate();
  EXPECT_EQ(rig.engine->evaluation_loss(), first);
}

TEST(EngineFlow, FlushRunsEachPendingUpdateOnce) {
  for (const std::string& policy : kPolicies) {
    for (const double clip : {0.0, 0.5}) {
      Rig rig(config(policy, clip));
      rig.engine->flush();  // nothing is pending before the first step
      EXPECT_EQ(rig.engine->stats().updates, 0u);
      uint64_t trained = 0;
      for (ChunkId c = 0; c < rig.plans.layout.chunks(); ++c) trained += rig.plans.shape.trained(c);
      rig.step(0);
      rig.engine->flush();
      EXPECT_EQ(rig.engine->stats().updates, trained);
      const auto state = rig.state();
      rig.engine->flush();
      rig.engine->flush();
      EXPECT_EQ(rig.engine->stats().updates, trained);
      EXPECT_TRUE(rig.state() == state);
      rig.step(1);
      rig.engine->flush();
      EXPECT_EQ(rig.engine->stats().updates, 2 * trained);
    }
  }
}

TEST(EngineFlow, ResultsOfTheLastTwoSteps) {
  const Outcome reference = run(config("lru", 0.5));
  Rig rig(config("lru", 0.5));
  for (uint64_t s = 0; s < 4; ++s) {
    rig.step(s);
    if (s > 0) {
      EXPECT_EQ(rig.engine->result(1).loss, reference.losses[s - 1]);
    }
    const StepResult newest = rig.engine->result(0);
    EXPECT_EQ(newest.loss, reference.losses[s]);
    EXPECT_EQ(newest.grad_norm, reference.norms[s]);
    EXPECT_TRUE(newest.applied);
  }
}

TEST(EngineFlow, WeightsSetBetweenStepsReachEveryCopy) {
  for (const std::string& policy : every_moving_policy({"static:w=1,o=0"})) {
    for (const double clip : {0.0, 0.5}) {
      Config c = config(policy, clip);
      Rig rig(c);
      c.policy = "resident";
      c.memory = 1;
      Rig resident(c);
      for (Rig* r : {&rig, &resident}) {
        r->step(0);
        r->step(1);  // its updates are pending
        r->engine->set_weight(1, [](uint64_t begin, uint64_t n, float* w) {
          for (uint64_t i = 0; i < n; ++i) w[i] = 1e-3f * static_cast<float>((begin + i) % 7);
        });
        r->step(2);
      }
      EXPECT_TRUE(rig.state() == resident.state()) << policy << " clip " << clip;
      EXPECT_EQ(rig.engine->result(0).loss, resident.engine->result(0).loss);
    }
  }
}

TEST(EngineFlow, PeaksStayThePredictedOnesOverManySteps) {
  for (const std::string& policy : kPolicies) {
    Config c = config(policy, 0.5);
    c.virtual_time = true;
    c.steps = 40;
    c.memory = 0.2;
    c.evaluate = true;
    const Outcome o = run(c);
    EXPECT_EQ(o.peaks[0], o.plan.tiers[0].peak) << policy;
    EXPECT_EQ(o.peaks[1], o.plan.tiers[1].peak) << policy;
  }
}

TEST(EngineFlow, AnEngineThatNeverRanGoesAwayCleanly) {
  Rig rig(config("lru", 0.5));
  rig.engine.reset();
  EXPECT_EQ(rig.ledger.now(Tier::device), 0u);
  EXPECT_EQ(rig.ledger.now(Tier::host), 0u);
}

TEST(EngineFlow, AnEngineDestroyedInTheMiddleOfAStepGoesAwayCleanly) {
  Rig rig(config("lru", 0.5));
  rig.step(0);
  rig.fill_batch(1);
  rig.engine->begin(0, rig.params_of(1));
  for (size_t i = 0; i < 4; ++i) {
    rig.plans.model.run(*rig.engine, rig.plans.train.calls()[i], true);
  }
  rig.engine.reset();
  EXPECT_EQ(rig.ledger.now(Tier::device), 0u);
  EXPECT_EQ(rig.ledger.now(Tier::host), 0u);
}

}  // namespace
}  // namespace strata::toy
