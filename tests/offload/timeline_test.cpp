#include "offload/timeline.hpp"

#include <gtest/gtest.h>

#include "offload/residency.hpp"
#include "runtime/errors.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

Config config(const std::string& policy, bool virtual_time, double host_share = 1) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = policy;
  c.memory = 0.1;
  c.host_share = host_share;
  c.virtual_time = virtual_time;
  c.record = {2, 2};
  return c;
}

/// Six steps, of which the third and fourth are recorded.
std::unique_ptr<Rig> recorded(const Config& c) {
  auto rig = std::make_unique<Rig>(c);
  for (uint64_t s = 0; s < 6; ++s) {
    rig->step(s);
    if (s > 0) rig->engine->result(1);
    if (!c.evaluate) continue;
    rig->evaluate();
    rig->engine->evaluation_loss();  // before its batch is filled anew
  }
  rig->engine->flush();
  rig->backend->drain();
  return rig;
}

TEST(WorkItem, SurvivesItsLabel) {
  const WorkItem w{Work::update, Plane::v, Place::nvme,   Place::host,
                   1023,         524287,   (1 << 24) - 1, true};
  EXPECT_EQ(WorkItem::of(w.label()), w);
  EXPECT_NE(w.label() & kTimed, 0u);
  EXPECT_EQ(WorkItem::of(0), WorkItem());
  EXPECT_EQ(WorkItem().label(), 0u) << "what belongs to nothing has the empty label";
}

TEST(Timeline, RefusesWhatWouldNotFit) {
  const Plans plans(config("lru", true));
  const auto make = [&](StepWindow w) {
    Timeline(plans.train, plans.shape, plans.layout.chunks(), w);
  };
  EXPECT_NO_THROW(make({0, 0}));
  EXPECT_NO_THROW(make({1'000'000'000, 2}));
  for (const uint32_t count : {Timeline::kMostSteps + 1, UINT32_MAX}) {
    try {
      make({0, count});
      FAIL() << count;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(std::to_string(count) + " steps"), std::string::npos)
          << e.what();
    }
  }
  EXPECT_EQ(Timeline::bytes_for(plans.train, plans.shape, plans.layout.chunks(), {}), 0u);
}

class EngineTimeline : public ::testing::TestWithParam<bool> {};  // in virtual time

TEST_P(EngineTimeline, HasEveryOpAndMoveOfItsStepsOnce) {
  for (const std::string& policy : every_policy()) {
    for (const double host : {1.0, 0.5}) {
      const auto rig = recorded(config(policy, GetParam(), host));
      const Timeline& t = *rig->timeline;
      EXPECT_TRUE(t.complete());
      std::vector<size_t> ops(2 * rig->plans.train.ops().size());
      std::vector<uint32_t> serials;
      for (size_t r = 0; r < kResources; ++r) {
        double last = 0;
        for (const TimelineEvent& e : t.waits(static_cast<Resource>(r))) {
          EXPECT_LE(e.begin, e.end);
          EXPECT_TRUE(WorkItem::of(e.label).timed);
        }
        for (const TimelineEvent& e : t.work(static_cast<Resource>(r))) {
          EXPECT_LE(e.begin, e.end);
          const WorkItem w = WorkItem::of(e.label);
          EXPECT_TRUE(w.timed);
          EXPECT_LT(w.step, 2u);
          EXPECT_NE(w.work, Work::other);
          EXPECT_GE(e.begin, last) << "a stream does one thing at a time";
          last = e.end;
          if (w.work == Work::op) {
            EXPECT_EQ(r, static_cast<size_t>(Resource::compute));
            ++ops[w.step * rig->plans.train.ops().size() + w.index];
          }
          if (w.work == Work::move || w.work == Work::update) serials.push_back(w.serial);
        }
      }
      for (size_t i = 0; i < ops.size(); ++i) {
        const bool skipped = rig->plans.train.ops()[i % rig->plans.train.ops().size()].skip;
        EXPECT_EQ(ops[i], skipped ? 0u : 1u) << policy << " op " << i;
      }
      std::sort(serials.begin(), serials.end());
      EXPECT_EQ(std::unique(serials.begin(), serials.end()), serials.end()) << policy;
      EXPECT_EQ(t.usage().size(), ops.size()) << policy;
    }
  }
}

/// The units of all copies a plan may have at once are on the device at no time too many, and an op
/// never runs while a copy it uses is not there.
TEST_P(EngineTimeline, WhatOpsUseIsOnTheDeviceWhileTheyRun) {
  for (const std::string& policy : every_policy()) {
    for (const bool evaluate : {false, true}) {
      Config c = config(policy, GetParam());
      c.evaluate = evaluate;
      const auto rig = recorded(c);
      const Residency residency(*rig->timeline, rig->plans.train);
      for (const TimelineEvent& e : rig->timeline->work(Resource::compute)) {
        const WorkItem w = WorkItem::of(e.label);
        if (w.work != Work::op) continue;
        for (const ObjUse& u : rig->plans.train.ops()[w.index].uses) {
          const bool there =
              std::any_of(residency.stays().begin(), residency.stays().end(), [&](const auto& s) {
                return s.object == u.object && s.begin <= e.begin && s.end >= e.end;
              });
          EXPECT_TRUE(there) << policy << " op " << w.index << " of step " << w.step << ", chunk "
                             << u.object.chunk << " " << name_of(u.object.plane);
        }
      }
    }
  }
}

TEST_P(EngineTimeline, BytesInUseNeverExceedTheUsedPeak) {
  const auto rig = recorded(config("lru", GetParam()));
  uint64_t most = 0;
  for (const TimelineUsage& u : rig->timeline->usage()) {
    uint64_t sum = 0;
    for (const uint64_t n : u.bytes[static_cast<size_t>(Tier::device)]) sum += n;
    most = std::max(most, sum);
  }
  EXPECT_LE(most, rig->ledger.peak(Tier::device));
  EXPECT_GE(most, rig->ledger.peak(Tier::device) / 2);
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineTimeline, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Virtual" : "Real"; });

TEST(EngineTimelines, RealAndVirtualRunsRecordTheSameWork) {
  const auto labels = [](const Rig& rig, Resource r) {
    std::vector<WorkLabel> out;
    for (const TimelineEvent& e : rig.timeline->work(r)) out.push_back(e.label);
    return out;
  };
  for (const std::string& policy : every_moving_policy()) {
    const auto real = recorded(config(policy, false, 0.5));
    const auto simulated = recorded(config(policy, true, 0.5));
    for (size_t r = 0; r < kResources; ++r) {
      // The norm is no work on every stream in virtual time, and takes none on some.
      EXPECT_EQ(labels(*real, static_cast<Resource>(r)),
                labels(*simulated, static_cast<Resource>(r)))
          << policy << " " << name_of(static_cast<Resource>(r));
    }
  }
}

TEST(Timeline, CountsWaitsOfComputeByObject) {
  Config c = config("gemini", true);  // which fetches only what an op needs
  const auto rig = recorded(c);
  double objects = 0;
  for (ChunkId chunk = 0; chunk < rig->plans.layout.chunks(); ++chunk) {
    for (const Plane p : {Plane::weight, Plane::grad, Plane::m, Plane::v}) {
      objects += rig->timeline->waited_for({chunk, p});
    }
  }
  const StreamTimes times = rig->backend->stream_times(Resource::compute);
  double all = 0;
  for (const double s : times.waited) all += s;
  EXPECT_GT(objects, 0);
  EXPECT_LE(objects, all * (1 + 1e-6));
}

}  // namespace
}  // namespace strata::toy
