// One suite that every policy passes.
#include "offload/policy/policy.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "runtime/errors.hpp"
#include "tests/offload/toy_run.hpp"

namespace strata::toy {
namespace {

class PolicyConformance : public ::testing::TestWithParam<std::string> {
 protected:
  static Config config() {
    Config c;
    c.shape = {3, 40, 100, 6, DType::f32};
    c.policy = GetParam();
    return c;
  }
};

TEST_P(PolicyConformance, HasItsNameAndKeepsIt) {
  const auto policy = make_policy(GetParam());
  EXPECT_EQ(policy->name().rfind(GetParam().substr(0, GetParam().find(':')), 0), 0u);
  EXPECT_EQ(make_policy(policy->name())->name(), policy->name()) << "the name is a specification";
}

TEST_P(PolicyConformance, PlansAreInRangeSortedAndRepeatable) {
  for (const double memory : {0.0, 0.3, 1.0}) {
    Config c = config();
    c.memory = memory;
    const Plans plans(c);
    const Budgets budgets = plans.budgets();
    const PlanResult r = make_plan(plans.input(budgets));
    ASSERT_TRUE(r.fits);
    EXPECT_EQ(r.plan.policy, r.policy->name());
    EXPECT_EQ(r.plan.chunks.size(), plans.layout.chunks());
    ASSERT_EQ(r.plan.actions.size(), plans.programs.size());
    for (size_t p = 0; p < plans.programs.size(); ++p) {
      OpIndex before = 0;
      for (const Action& a : r.plan.actions[p]) {
        EXPECT_GE(a.issue_before, before);
        before = a.issue_before;
        EXPECT_LT(a.issue_before, plans.programs[p]->ops().size());
        EXPECT_LT(a.object.chunk, plans.layout.chunks());
        EXPECT_GT(plans.shape.units(a.object), 0u) << "of an object that does not exist";
      }
    }
    EXPECT_GE(r.plan.device_units, r.plan.need.device_units());
    EXPECT_GE(r.plan.host_units, r.plan.need.host_units);
    const size_t unit = plans.shape.unit_bytes();
    EXPECT_LE(r.plan.device_units * unit + r.plan.need.non_model_bytes, budgets.bytes[0]);
    EXPECT_LE(r.plan.host_units * unit, budgets.bytes[1]);
    for (size_t t = 0; t < kTiers; ++t) EXPECT_LE(r.tiers[t].peak, budgets.bytes[t]);
    EXPECT_EQ(make_plan(plans.input(budgets)).plan.hash(), r.plan.hash());
    EXPECT_EQ(make_plan(Plans(c).input(budgets)).plan.hash(), r.plan.hash()) << "planned afresh";
  }
}

TEST_P(PolicyConformance, ChoosesAVictimThatIsThere) {
  const auto policy = make_policy(GetParam());
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<Victim> victims(1 + random() % 9);
    for (Victim& v : victims) {
      // Few values, so that many are equal.
      v = {{static_cast<ChunkId>(random() % 5), Plane::weight}, random() % 4, random() % 4};
    }
    const size_t chosen = policy->choose_victim(victims);
    ASSERT_LT(chosen, victims.size());
    EXPECT_EQ(policy->choose_victim(victims), chosen) << "the same victims, another choice";
  }
}

TEST_P(PolicyConformance, NumbersEqualResidentAndPeaksArePredicted) {
  int which = 0;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const double memory : {0.0, 0.5, 1.0}) {
      Config c = config();
      c.shape.dtype = dtype;
      // Each option in both positions over the six runs.
      c.accum = which % 2 == 0 ? 1 : 2;
      c.clip = which % 3 == 0 ? 0 : 0.3;
      c.evaluate = which % 2 == 1;
      c.recompute = which % 3 == 1;
      c.delay_seed = static_cast<uint64_t>(which);
      c.steps = 3;
      ++which;
      Config reference = c;
      reference.policy = "resident";
      reference.memory = 1;
      reference.delay_seed = 0;
      c.memory = memory;
      const Outcome o = toy::run(c);
      EXPECT_TRUE(o.same_numbers(toy::run(reference))) << name_of(dtype) << " memory " << memory;
      for (const size_t t : {0u, 1u}) {
        EXPECT_EQ(o.peaks[t], o.plan.tiers[t].peak) << "tier " << t << ", memory " << memory;
        EXPECT_LE(o.peaks[t], o.plan.tiers[t].budget);
      }
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char ch : info.param) name += std::isalnum(ch) ? ch : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PolicyConformance,
                         ::testing::ValuesIn(every_policy({"static:w=0,o=0", "static:w=1,o=0",
                                                           "static:w=0.3,o=0.7", "gemini:n=2"})),
                         test_name);

TEST(PolicyChoices, GeminiLooksNoFurtherThanTheStep) {
  // The second and the third are not used again in this step, of which 4 ops are left.
  const std::vector<Victim> victims = {{{0, Plane::weight}, 7, 3, 4},
                                       {{1, Plane::weight}, 2, 5, 4},
                                       {{2, Plane::weight}, 9, 8, 4},
                                       {{3, Plane::weight}, 2, 1, 4}};
  EXPECT_EQ(make_policy("gemini")->choose_victim(victims), 1u) << "the first of equals";
  EXPECT_EQ(make_policy("belady")->choose_victim(victims), 2u);
}

/// A steady step in virtual time, whose fetches take about as long as its ops.
Outcome step_of(const char* policy, double memory) {
  Config c;
  c.shape = {6, 40, 100, 6, DType::f32};
  c.policy = policy;
  c.memory = memory;
  c.virtual_time = true;
  return toy::run(c);
}

TEST(PolicyChoices, GeminiPrefetchesOnlyWhatItIsAsked) {
  const Outcome none = step_of("gemini", 0.8), two = step_of("gemini:n=2", 0.8);
  EXPECT_EQ(none.stats.prefetches, 0u);
  EXPECT_GT(none.stats.demand_misses, 0u);
  EXPECT_GT(two.stats.prefetches, 0u);
  EXPECT_LT(two.stats.demand_misses, none.stats.demand_misses);
}

TEST(PolicyChoices, LruEvictsTheOldestAndPlannedOnesTheFurthest) {
  const std::vector<Victim> victims = {{{0, Plane::weight}, 7, 3},
                                       {{1, Plane::weight}, 2, 5},
                                       {{2, Plane::grad}, 9, 8},
                                       {{3, Plane::weight}, 2, 8}};
  EXPECT_EQ(make_policy("lru")->choose_victim(victims), 1u);
  EXPECT_EQ(make_policy("static")->choose_victim(victims), 2u);
  EXPECT_EQ(make_policy("belady")->choose_victim(victims), 2u);
}

/// Bytes from NVMe and demand misses of a steady step, everything below the device on NVMe.
Prediction on_nvme(const char* policy, double memory, double clip) {
  Config c;
  c.shape = {12, 40, 100, 6, DType::f32};
  c.policy = policy;
  c.host_share = 0;
  c.memory = memory;
  c.clip = clip;
  const Plans plans(c);
  const PlanResult r = make_plan(plans.input(plans.budgets()));
  EXPECT_TRUE(r.fits);
  return r.prediction;
}

TEST(PolicyChoices, BeladyReadsAndMissesNoMoreThanLru) {
  uint32_t fewer = 0;
  for (const double clip : {0.0, 0.5}) {
    for (const double memory : {0.1, 0.2, 0.3, 0.4, 0.6, 0.8}) {
      const Prediction lru = on_nvme("lru", memory, clip), b = on_nvme("belady", memory, clip);
      EXPECT_LE(b.nvme_read_bytes, lru.nvme_read_bytes) << memory << " clip " << clip;
      EXPECT_LE(b.demand_misses, lru.demand_misses) << memory << " clip " << clip;
      fewer += b.demand_misses < lru.demand_misses;
    }
  }
  EXPECT_GT(fewer, 3u);
}

TEST(PolicyChoices, ResidentKeepsAllAndStaticAPrefix) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = "static:w=0.5,o=0.25";
  const Plans plans(c);
  const std::vector<ChunkPlacement> placed = make_plan(plans.input(plans.budgets())).plan.chunks;
  const ChunkId n = plans.layout.chunks();
  ASSERT_GE(n, 6u);
  for (ChunkId i = 0; i < n; ++i) {
    EXPECT_EQ(placed[i].on_device(), i < (n + 3) / 4) << i;
    EXPECT_EQ(placed[i].keep_weight, i < (n + 1) / 2) << i;
  }
  c.policy = "resident";
  const Plans resident(c);
  for (const ChunkPlacement& p : make_plan(resident.input(resident.budgets())).plan.chunks) {
    EXPECT_TRUE(p.on_device());
  }
}

TEST(PolicyChoices, LruTakesDeviceHomesWhereTheHostIsTooSmall) {
  Config c;
  c.shape = {3, 40, 100, 6, DType::f32};
  c.policy = "lru";
  const Plans plans(c);
  Budgets b = plans.budgets();
  b.bytes[0] *= 4;
  b.bytes[1] /= 2;
  const PlanResult r = make_plan(plans.input(b));
  ASSERT_TRUE(r.fits);
  EXPECT_TRUE(r.plan.chunks.front().on_device());
  EXPECT_EQ(r.plan.chunks.back(), ChunkPlacement::all(Place::host));
  EXPECT_LE(r.tiers[1].peak, b.bytes[1]);
}

void expect_refused(const char* spec, const char* why) {
  try {
    make_policy(spec);
    FAIL() << spec << " was accepted";
  } catch (const ConfigError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("'") + spec + "'"), std::string::npos) << text;
    for (const PolicyInfo& p : policies()) EXPECT_NE(text.find(p.name), std::string::npos) << text;
  }
}

TEST(MakePolicy, SaysWhatIsWrong) {
  expect_refused("magic", "there is no such policy");
  expect_refused("", "there is no such policy");
  expect_refused("LRU", "there is no such policy");
  expect_refused("lru:w=0.5", "unknown key 'w'");
  expect_refused("resident:x=1", "unknown key 'x'");
  expect_refused("static:w=0.5,q=1", "unknown key 'q'");
  expect_refused("static:w=2", "'2' is not a fraction");
  expect_refused("static:w=-0.5", "'-0.5' is not a fraction");
  expect_refused("static:w=nan", "'nan' is not a fraction");
  expect_refused("static:w=0.5x", "'0.5x' is not a fraction");
  expect_refused("static:w=", "'' is not a fraction");
  expect_refused("static:w", "'w' is not key=value");
  expect_refused("static:,", "'' is not key=value");
  expect_refused("static:w=0.5,w=0.5", "key 'w' is given twice");
  expect_refused("gemini:n=1001", "'1001' is not a whole number from 0 to 1000");
  expect_refused("gemini:n=1.5", "'1.5' is not a whole number");
  expect_refused("gemini:n=-1", "'-1' is not a whole number");
}

TEST(MakePolicy, FillsInWhatIsNotGiven) {
  EXPECT_EQ(make_policy("static")->name(), "static:w=0.5,o=0.25");
  EXPECT_EQ(make_policy("static:o=1")->name(), "static:w=0.5,o=1");
  EXPECT_EQ(make_policy("static:o=0.125,w=0")->name(), "static:w=0,o=0.125");
  EXPECT_EQ(make_policy("lru:")->name(), "lru");
  EXPECT_EQ(make_policy("gemini")->name(), "gemini:n=0");
  EXPECT_EQ(make_policy("gemini:n=1000")->name(), "gemini:n=1000");
}

}  // namespace
}  // namespace strata::toy
