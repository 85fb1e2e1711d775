#include "offload/policy/placement_lp.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace strata {
namespace {

using Event = StepModel::Event;

/// A forward and a backward pass over chunks of fp32 planes, updated as soon as they can be.
StepModel zigzag(uint32_t chunks, bool on_device) {
  StepModel m;
  m.updates_on_device = on_device;
  std::vector<Event> forward, backward, update;
  const auto slot = [&] {
    m.op_of.push_back(m.ops);
    return m.slots() - 1;
  };
  for (uint32_t c = 0; c < chunks; ++c) {
    const uint32_t t = slot();
    ++m.ops;
    forward.push_back({t, t});
  }
  backward.resize(chunks);
  update.resize(chunks);
  for (uint32_t c = chunks; c-- > 0;) {
    const uint32_t t = slot();
    ++m.ops;
    backward[c] = {t, t};
    const uint32_t u = slot();
    update[c] = {u, u, true};
    m.update_slot.push_back(u);
  }
  for (ChunkId c = 0; c < chunks; ++c) {
    m.objects.push_back({{c, Plane::weight}, 1, 1, {forward[c], backward[c], update[c]}});
    m.objects.push_back({{c, Plane::grad}, 1, 1, {backward[c], update[c]}});
    m.objects.push_back({{c, Plane::m}, 1, 1, {update[c]}});
    m.objects.push_back({{c, Plane::v}, 1, 1, {update[c]}});
  }
  return m;
}

/// The cheapest of all whole choices, by trying them all.
double brute_force(const PlacementProgram& p, const StepModel& m, bool host, bool nvme) {
  std::vector<std::vector<Choice>> options;
  for (const StepModel::Object& o : m.objects) {
    std::vector<Choice> list = {{Place::device, std::vector<bool>(o.events.size(), true)}};
    for (const Place home : {Place::host, Place::nvme}) {
      if (home == Place::host ? !host : !nvme) continue;
      for (size_t set = 0; set < size_t{1} << o.events.size(); ++set) {
        Choice c{home, {}};
        bool makes_sense = true;
        for (size_t e = 0; e < o.events.size(); ++e) {
          c.kept.push_back((set >> e & 1) != 0);
          // What an update below the device makes stale is not kept.
          if (c.kept[e] && !m.updates_on_device && o.events[e].update) makes_sense = false;
        }
        if (o.events.size() == 1 && c.kept[0]) makes_sense = false;  // it lives there
        if (makes_sense) list.push_back(c);
      }
    }
    options.push_back(list);
  }
  double best = 1e300;
  std::vector<Choice> chosen(m.objects.size());
  const std::function<void(size_t)> descend = [&](size_t i) {
    if (i == m.objects.size()) {
      if (p.fits(chosen)) best = std::min(best, p.cost_of(chosen));
      return;
    }
    for (const Choice& c : options[i]) {
      // Off the device a chunk is there as a whole or not at all.
      if (!m.updates_on_device && i % 4 != 0 &&
          (c.home == Place::device) != (chosen[i - i % 4].home == Place::device)) {
        continue;
      }
      chosen[i] = c;
      descend(i + 1);
    }
  };
  descend(0);
  return best;
}

TEST(PlacementProgram, WithAllTheRoomNothingMoves) {
  for (const bool on_device : {true, false}) {
    const StepModel m = zigzag(5, on_device);
    const PlacementProgram p(m, {20, 20, 20}, {1, 1, 3, 2});
    EXPECT_NEAR(p.relax().value, 0, 1e-9);
    EXPECT_EQ(p.cost_of(p.round()), 0);
  }
}

TEST(PlacementProgram, WithTheLeastRoomEverythingStreams) {
  const StepModel m = zigzag(5, true);
  // An update takes four units, and 20 live on NVMe.
  const PlacementProgram p(m, {4, 0, 20}, {0, 0, 3, 2});
  const auto choices = p.round();
  ASSERT_EQ(choices.size(), m.objects.size());
  EXPECT_TRUE(p.fits(choices));
  // Per chunk: weights forward, backward (but for the last one, whose uses touch), and records;
  // weights and records written. The backward pass finds four units and can keep some weights.
  EXPECT_GE(p.cost_of(choices), p.relax().value - 1e-9);
  EXPECT_LE(p.cost_of(choices), 5 * (2 * 3 + 2 * 3 + 3 * 2));
  EXPECT_TRUE(PlacementProgram(m, {3, 0, 20}, {0, 0, 3, 2}).round().empty())
      << "an update does not fit";
  EXPECT_TRUE(PlacementProgram(m, {4, 0, 15}, {0, 0, 3, 2}).round().empty()) << "homes do not fit";
}

TEST(PlacementProgram, KeepsWhatSavesMost) {
  // One unit beyond the least: weights are worth 2 reads and a write, records one of each.
  const StepModel m = zigzag(1, true);
  const PlacementProgram p(m, {4, 0, 4}, {0, 0, 1, 1});
  EXPECT_EQ(p.cost_of(p.round()), 0) << "a single chunk never leaves";
}

TEST(PlacementProgram, TheBoundHoldsAndSmallProgramsAreSolvedExactly) {
  struct Case {
    bool on_device;
    Room room;
  };
  std::mt19937_64 random(3);
  for (int i = 0; i < 30; ++i) {
    Case c{i % 2 == 0, {}};
    const StepModel m = zigzag(2, c.on_device);
    c.room.device = static_cast<uint32_t>(c.on_device ? 4 + random() % 5 : 2 + random() % 7);
    c.room.host = c.on_device ? 0 : static_cast<uint32_t>(random() % 9);
    c.room.nvme = c.on_device || i % 3 == 0 ? 8 : 0;
    const LinkUnits costs{1 + static_cast<double>(random() % 3), 1,
                          4 + static_cast<double>(random() % 3), 5};
    const PlacementProgram p(m, c.room, costs);
    const double best = brute_force(p, m, c.room.host != 0, c.room.nvme != 0);
    const LinearSolution relaxed = p.relax();
    if (best > 1e200) continue;  // nothing fits
    ASSERT_TRUE(relaxed.feasible) << i;
    EXPECT_LE(relaxed.value, best + 1e-6) << i;
    const auto rounded = p.round(), exact = p.round_exactly(5000);
    ASSERT_FALSE(rounded.empty());
    EXPECT_TRUE(p.fits(rounded)) << i;
    EXPECT_GE(p.cost_of(rounded), best - 1e-6) << i;
    ASSERT_FALSE(exact.empty());
    EXPECT_TRUE(p.fits(exact)) << i;
    EXPECT_NEAR(p.cost_of(exact), best, 1e-6)
        << i << " on device " << c.on_device << " room " << c.room.device << " " << c.room.host
        << " " << c.room.nvme;
  }
}

TEST(PlacementProgram, RoundingIsNearTheBoundAndKeepsBudgets) {
  for (const bool on_device : {true, false}) {
    const StepModel m = zigzag(24, on_device);
    for (uint32_t device = 8; device < 96; device += 13) {
      for (const uint32_t host : {0u, 24u, 54u}) {
        if (on_device != (host == 0)) continue;
        const LinkUnits costs{1, 1, 4, 5};
        const PlacementProgram p(m, {device, host, 96}, costs);
        const auto choices = p.round(p.cheapest_staging(), true);
        ASSERT_FALSE(choices.empty());
        EXPECT_TRUE(p.fits(choices));
        // The largest plane there and back over all links.
        const double round_trip = on_device ? 9 : 11;
        const double bound = p.relax().value;
        EXPECT_LE(p.cost_of(choices), 1.02 * bound + round_trip) << device << " " << host;
        EXPECT_GE(p.cost_of(choices), bound - 1e-6);
      }
    }
  }
}

TEST(PlacementProgram, SpreadPrefersChunksFarFromEachOther) {
  const StepModel m = zigzag(32, true);
  const PlacementProgram p(m, {70, 0, 128}, {0, 0, 1, 1}, 0.02);
  const auto choices = p.round();
  // The longest run of neighbours that are treated alike.
  const auto streamed = [&](ChunkId c) { return choices[c * 4 + 2].home != Place::device; };
  uint32_t run = 0, longest = 0, count = 0;
  for (ChunkId c = 0; c < 32; ++c) {
    run = streamed(c) ? run + 1 : 0;
    count += streamed(c);
    longest = std::max(longest, run);
  }
  ASSERT_GT(count, 8u);
  EXPECT_LE(longest, count / 2) << "of " << count;
}

TEST(StepModel, GapsWrapAroundAndUnitsAreCounted) {
  const StepModel m = zigzag(3, true);
  ASSERT_EQ(m.slots(), 9u);
  const StepModel::Object& weight = m.objects[0];  // chunk 0: slots 0, 7, 8
  EXPECT_EQ(m.gap(weight, 0).begin, 1u);
  EXPECT_EQ(m.gap(weight, 0).end, 7u);
  EXPECT_TRUE(m.gap(weight, 1).empty());
  EXPECT_EQ(m.gap(weight, 2).begin, 9u);
  EXPECT_EQ(m.gap(weight, 2).end, 9u) << "from the update, last, to the first op";
  const StepModel::Object& middle = m.objects[4];  // chunk 1: slots 1, 5, 6
  EXPECT_EQ(m.gap(middle, 2).begin, 7u);
  EXPECT_EQ(m.gap(middle, 2).end, 10u);
  const auto used = m.units_in_use();
  EXPECT_EQ(used[0], 1u);
  EXPECT_EQ(used[3], 2u) << "weight and gradient";
  EXPECT_EQ(used[4], 4u) << "an update";
  EXPECT_EQ(zigzag(3, false).units_in_use()[4], 0u) << "an update below the device";
}

}  // namespace
}  // namespace strata
