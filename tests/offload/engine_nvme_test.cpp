// Weights, gradients and records on NVMe, wholly or in part: the same bits as everything resident.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/offload/toy_run.hpp"
#include "tests/sanitized.hpp"

namespace strata::toy {
namespace {

Config base() {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = "lru";
  c.memory = 0;
  c.host_share = 0;
  return c;
}

Outcome resident(Config c) {
  c.policy = "resident";
  c.host_share = 1;
  return run(c);
}

void expect_same(const Config& c, const Outcome& reference) {
  SCOPED_TRACE(c.policy + " memory " + std::to_string(c.memory) + " host share " +
               std::to_string(c.host_share) + " accum " + std::to_string(c.accum) + " clip " +
               std::to_string(c.clip) + " " + name_of(c.shape.dtype));
  const Outcome o = run(c);
  ASSERT_TRUE(o.plan.fits);
  EXPECT_TRUE(o.same_numbers(reference));
  // With more memory than the least, `auto` may need no drive.
  if (c.memory == 0 || !c.policy.starts_with("auto")) {
    EXPECT_GT(o.plan.plan.nvme_units, 0u);
    EXPECT_GT(o.stats.nvme_read_bytes, 0u);
    EXPECT_GT(o.stats.nvme_write_bytes, 0u);
  }
  for (size_t t = 0; t < kTiers; ++t) EXPECT_EQ(o.peaks[t], o.plan.tiers[t].peak) << "tier " << t;
}

TEST(EngineNvme, AnyShareOfTheStateEqualsResident) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double clip : {0.0, 0.05}) {
      if (kSanitized && (clip == 0) != (dtype == DType::f32)) continue;
      Config c = base();
      c.shape.dtype = dtype;
      c.clip = clip;
      c.accum = clip == 0 ? 1 : 3;
      c.evaluate = true;
      const Outcome reference = resident(c);
      c.delay_seed = 5;
      for (const std::string& policy : every_moving_policy({"static:w=1,o=0"})) {
        for (const double share : {0.0, 0.3, 0.9}) {
          for (const double memory : {0.0, 0.4}) {
            c.policy = policy;
            c.host_share = share;
            c.memory = memory;
            c.recompute = memory == 0;
            expect_same(c, reference);
          }
        }
      }
    }
  }
}

TEST(EngineNvme, EnginesDirectoriesAndChunksDoNotMatter) {
  Config c = base();
  const Outcome reference = resident(c);
  for (const char* engine : {"auto", "threads"}) {
    for (const uint32_t directories : {1u, 2u, 3u}) {
      for (const uint64_t chunk : {2048u, 6144u}) {
        c.nvme_engine = engine;
        c.nvme_directories = directories;
        c.chunk_elems = chunk;
        expect_same(c, reference);
      }
    }
  }
}

TEST(EngineNvme, UpdatesStageOnHostWhereThereIsRoom) {
  Config c = base();
  const Outcome reference = resident(c);
  c.host_share = 0.9;
  const Outcome o = run(c);
  EXPECT_EQ(o.plan.plan.staging, Place::host);
  EXPECT_TRUE(o.same_numbers(reference));
  c.host_share = 0;
  EXPECT_EQ(run(c).plan.plan.staging, Place::device);
}

TEST(EngineNvme, LogsAreEqualOverDelaysAndInVirtualTime) {
  for (const double share : {0.0, 0.5}) {
    for (const double clip : {0.0, 0.5}) {
      Config c = base();
      c.host_share = share;
      c.clip = clip;
      c.virtual_time = true;
      const IssueLog expected = run(c).log;
      c.virtual_time = false;
      for (const uint64_t seed : {1u, 2u, 3u}) {
        c.delay_seed = seed;
        EXPECT_TRUE(run(c).log == expected) << "share " << share << ", clip " << clip;
      }
    }
  }
}

/// Weights of more blocks than fit beside the planes of two updates.
Config streaming() {
  Config c = base();
  c.shape.layers = 12;
  c.memory = 0.3;
  c.virtual_time = true;
  return c;
}

TEST(EngineNvme, WeightsUpdatedAheadStayUntilTheyAreUsed) {
  Rig rig(streaming());
  for (uint64_t s = 0; s < 4; ++s) rig.step(s);
  ASSERT_EQ(rig.plan.staging, Place::device);
  uint32_t updates = 0;
  for (size_t i = 0; i < rig.log.size(); ++i) {
    const IssueEntry& updated = rig.log[i];
    if (updated.kind != Issued::update) continue;
    const ObjId weight{updated.chunk, Plane::weight};
    const OpIndex use = rig.plans.train.next_use(weight, updated.op);
    if (use <= updated.op || use == rig.plans.train.ops().size()) continue;  // not ahead
    ++updates;
    for (size_t j = i + 1; j < rig.log.size() && rig.log[j].op < use; ++j) {
      const IssueEntry& e = rig.log[j];
      if (e.op < updated.op) break;  // the next step
      EXPECT_FALSE(e.kind == Issued::drop && e.chunk == weight.chunk && e.plane == weight.plane)
          << "chunk " << weight.chunk << ", updated before op " << updated.op << " for op " << use
          << ", dropped before op " << e.op;
    }
  }
  EXPECT_GT(updates, rig.plans.layout.chunks());
}

TEST(EngineNvme, GradientsMadeLastAreUpdatedWithoutComingBack) {
  Rig rig(streaming());
  rig.step(0);
  rig.log.clear();
  rig.step(1);
  uint32_t updates = 0, gradients_read = 0;
  for (const IssueEntry& e : rig.log) {
    updates += e.kind == Issued::update;
    gradients_read += e.kind == Issued::fetch && e.plane == Plane::grad;
  }
  EXPECT_LT(gradients_read, updates);
  EXPECT_GT(gradients_read, 0u);
}

/// Times a plane is written to NVMe in a steady step.
uint64_t written(const IssueLog& log, Plane plane) {
  return static_cast<uint64_t>(std::count_if(log.begin(), log.end(), [&](const IssueEntry& e) {
    return e.kind == Issued::write_back && e.plane == plane;
  }));
}

TEST(EngineNvme, GradientsThatSurviveUntilTheirUpdateAreNeverWritten) {
  for (const char* policy : {"lru", "belady"}) {
    for (const double clip : {0.0, 0.5}) {
      uint64_t before = UINT64_MAX;
      for (const double memory : {0.0, 0.3, 0.6, 1.0}) {
        SCOPED_TRACE(std::string(policy) + " clip " + std::to_string(clip) + " memory " +
                     std::to_string(memory));
        Config c = streaming();
        c.policy = policy;
        c.clip = clip;
        c.memory = memory;
        Rig rig(c);
        for (uint64_t s = 0; s < 3; ++s) rig.step(s);
        rig.log.clear();
        rig.step(3);
        ASSERT_EQ(rig.plan.staging, Place::device);
        uint64_t chunks = 0;
        for (ChunkId n = 0; n < rig.plans.layout.chunks(); ++n)
          chunks += rig.plans.shape.trained(n);
        const uint64_t gradients = written(rig.log, Plane::grad);
        EXPECT_EQ(written(rig.log, Plane::m), chunks);
        EXPECT_LE(gradients, before) << "more memory, more writes";
        before = gradients;
        if (memory == 0) {
          EXPECT_GT(gradients, 0u);
        }
        // Without a step-wide value updates follow soon.
        if (clip == 0 ? memory > 0 : memory == 1) {
          EXPECT_EQ(gradients, 0u);
        }
      }
    }
  }
}

TEST(EngineNvme, ASkippedUpdateIsFound) {
  Config c = base();
  const Outcome reference = resident(c);
  for (uint64_t n = 1; n <= 5; ++n) {
    c.mutations.skip_update = n;
    EXPECT_FALSE(run(c).same_numbers(reference)) << "update " << n;
  }
}

}  // namespace
}  // namespace strata::toy
