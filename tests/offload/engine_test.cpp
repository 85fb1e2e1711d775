// Bit-exactness of the engine on the toy model: every configuration against everything resident.
#include <gtest/gtest.h>

#include <random>

#include "tests/offload/toy_run.hpp"
#include "tests/sanitized.hpp"

namespace strata::toy {
namespace {

Config base() {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  return c;
}

void expect_same(const Config& c, const Outcome& reference) {
  const Outcome o = run(c);
  EXPECT_TRUE(o.same_numbers(reference))
      << c.policy << " memory " << c.memory << " accum " << c.accum << " clip " << c.clip
      << " chunk " << c.chunk_elems << " first losses " << o.losses.front() << " "
      << reference.losses.front();
  EXPECT_EQ(o.peaks[0], o.plan.tiers[0].peak) << "predicted and used device peaks";
  EXPECT_EQ(o.peaks[1], o.plan.tiers[1].peak) << "predicted and used host peaks";
}

TEST(Engine, LossesFall) {
  Config c = base();
  c.steps = 30;
  const Outcome o = run(c);
  EXPECT_LT(o.losses.back(), 0.7 * o.losses.front());
}

TEST(Engine, EveryPolicyEqualsResident) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const uint32_t accum : {1u, 3u}) {
      if (kSanitized && (accum == 1) != (dtype == DType::f32)) continue;
      for (const double clip : {0.0, 0.05, 100.0}) {
        Config c = base();
        c.shape.dtype = dtype;
        c.accum = accum;
        c.clip = clip;
        c.evaluate = accum == 3;
        const Outcome reference = run(c);
        int which = 0;
        for (const std::string& policy :
             every_moving_policy({"static:w=0,o=0", "static:w=1,o=0", "gemini:n=2"})) {
          for (const double memory : {0.0, 0.4}) {
            c.policy = policy;
            c.memory = memory;
            c.delay_seed = 7;
            c.recompute = memory == 0;
            c.order = static_cast<MicroBatchOrder>(which++ % 2);
            expect_same(c, reference);
          }
        }
      }
    }
  }
}

TEST(Engine, MicroBatchesOfABlockTogetherMoveWeightsOnce) {
  Config c = base();
  c.accum = 4;
  c.policy = "lru";
  c.memory = 0;
  const Outcome one_by_one = run(c);
  c.order = MicroBatchOrder::vertical;
  const Outcome together = run(c);
  EXPECT_TRUE(together.same_numbers(one_by_one));
  EXPECT_LT(2 * together.stats.h2d_bytes, one_by_one.stats.h2d_bytes);
  EXPECT_LT(2 * together.stats.d2h_bytes, one_by_one.stats.d2h_bytes) << "gradients too";
  EXPECT_GT(together.plan.plan.need.non_model_bytes, one_by_one.plan.plan.need.non_model_bytes)
      << "at the price of all values at once";
}

TEST(Engine, ChunkSizesAndThreadsDoNotMatter) {
  Config c = base();
  const Outcome reference = run(c);
  c.policy = "lru";
  c.memory = 0;
  for (const uint64_t chunk : {2048u, 4096u, 6144u, 16384u}) {
    for (const uint32_t threads : {1u, 2u, 3u}) {
      c.chunk_elems = chunk;
      c.threads = threads;
      expect_same(c, reference);
    }
  }
}

TEST(Engine, SgdWithAndWithoutMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    Config c = base();
    c.optimizer.kind = OptimizerKind::sgd;
    c.optimizer.momentum = momentum;
    const Outcome reference = run(c);
    c.policy = "lru";
    c.memory = 0;
    expect_same(c, reference);
  }
}

TEST(Engine, WeightsMoveUnderTheSmallestBudget) {
  Config c = base();
  c.policy = "lru";
  c.memory = 0;
  const Outcome o = run(c);
  EXPECT_GT(o.stats.weight_fetches, 0u);
  EXPECT_GT(o.stats.demand_misses, 0u);
  EXPECT_GT(o.stats.d2h_bytes, 0u);
}

/// The updates of 4 steps; each of the first 20 is dropped in its own run.
TEST(Engine, SkippedUpdateIsFoundWhicheverItIs) {
  for (const double clip : {0.0, 0.5}) {
    Config c = base();
    c.clip = clip;
    const Outcome reference = run(c);
    ASSERT_GE(reference.stats.updates, 20u);
    c.policy = "lru";
    c.memory = 0;
    ASSERT_TRUE(run(c).same_numbers(reference));
    for (uint64_t n = 1; n <= 20; ++n) {
      c.mutations.skip_update = n;
      const Outcome o = run(c);
      EXPECT_EQ(o.stats.updates, reference.stats.updates - 1);
      EXPECT_FALSE(o.same_numbers(reference)) << "clip " << clip << ", update " << n;
    }
  }
}

TEST(Engine, LogsAreEqualOverDelaysAndInVirtualTime) {
  for (const std::string& policy : every_policy({"gemini:n=2"})) {
    for (const double clip : {0.0, 0.5}) {
      Config c = base();
      c.policy = policy;
      c.memory = 0.1;
      c.clip = clip;
      c.evaluate = true;
      c.virtual_time = true;
      const IssueLog expected = run(c).log;
      EXPECT_GT(expected.size(), 100u);
      c.virtual_time = false;
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        c.delay_seed = seed;
        EXPECT_EQ(run(c).log, expected) << policy << " seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace strata::toy
