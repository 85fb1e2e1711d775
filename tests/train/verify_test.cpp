#include "train/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "models/gpt2_config.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

VerifyOutcome verify(const VerifyCase& c) {
  const auto data =
      random_tokens(parse_gpt2(c.session.model).vocabulary, c.session.shape.seq, c.session.seed);
  return verify_case(c, *data);
}

/// A case whose weights stream through the least device memory.
VerifyCase streamed(const char* model = "gpt2:L2,D32,H2,V96,T16") {
  VerifyCase c;
  c.session.model = model;
  c.session.shape = {2, 16, 1};
  c.session.chunk_bytes = 8192;
  c.schedule = {1e-2, 1e-3, 1, 3};
  const Workload workload(c.session);
  c.budgets.bytes = {size_t{1} << 40, size_t{1} << 40, 0};
  const PlanResult plan = workload.plan(c.budgets);
  c.budgets.bytes = {plan.minimum[0], plan.minimum[1], 0};
  return c;
}

/// State hash after the case's steps under budgets, with all position embeddings set to `position`.
uint64_t state_hash(const VerifyCase& c, float position) {
  const Workload workload(c.session);
  Session session(workload, workload.plan(c.budgets), c.budgets);
  const auto params = workload.layout().params();
  for (ParamId p = 0; p < params.size(); ++p) {
    if (params[p].name != "wpe.weight") continue;
    session.engine().set_weight(
        p, [&](uint64_t, uint64_t n, float* out) { std::fill(out, out + n, position); });
  }
  const BatchShape& shape = c.session.shape;
  const auto data = random_tokens(96, shape.seq, 5);
  std::vector<std::vector<int32_t>> batches;  // each stays until its step is done
  for (uint64_t s = 0; s < c.schedule.steps; ++s) {
    std::vector<int32_t>& tokens = batches.emplace_back(2 * shape.rows());
    int32_t* targets = tokens.data() + shape.rows();
    data->train_batch(s * shape.batch, shape.batch, tokens.data(), targets);
    session.step({tokens.data(), targets},
                 {s, c.schedule.at(s), static_cast<double>(shape.rows())});
  }
  return session.state_hash();
}

// ---- what it finds

TEST(Verify, StreamedIsIdenticalToResident) {
  for (const bool evaluate : {false, true}) {
    VerifyCase c = streamed();
    c.evaluate = evaluate;
    c.delay_seed = 11;
    const VerifyOutcome o = verify(c);
    EXPECT_FALSE(o.difference) << o.difference->tensor << ": " << o.difference->detail;
    EXPECT_GT(o.stats.weight_fetches, 0u);
    EXPECT_EQ(o.peaks, o.predicted_peaks);
    EXPECT_EQ(o.plan_hash.size(), 16u);
    EXPECT_NE(o.numerics_key.find("model=gpt2:L2,D32,H2,V96,T16"), std::string::npos);
  }
}

#if defined(__x86_64__)
TEST(Verify, ACallerThatFlushesDenormalsChangesNothing) {
  constexpr unsigned kFtzDaz = 0x8040;
  // Positions past the sequence have no gradient: weight decay alone moves them, and they stay
  // denormal unless a kernel flushes them to zero.
  const VerifyCase c = streamed("gpt2:L2,D32,H2,V96,T32");
  const uint64_t expected = state_hash(c, 1e-40f);
  EXPECT_NE(state_hash(c, 0.0f), expected) << "flushed weights would go unnoticed";
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | kFtzDaz);
  const uint64_t flushed = state_hash(c, 1e-40f);
  const VerifyOutcome outcome = verify(c);
  const bool intact = (_mm_getcsr() & kFtzDaz) == kFtzDaz;
  _mm_setcsr(saved);
  EXPECT_EQ(flushed, expected);
  EXPECT_FALSE(outcome.difference);
  EXPECT_TRUE(intact) << "and its own setting is left alone";
}
#endif

TEST(Verify, ASkippedUpdateIsFoundInTheNextLoss) {
  VerifyCase c = streamed();
  c.mutations.skip_update = 1;  // the first chunk's, of step 1
  const VerifyOutcome o = verify(c);
  ASSERT_TRUE(o.difference);
  EXPECT_EQ(o.difference->tensor, "loss");
  EXPECT_EQ(o.difference->step, 2u);
  EXPECT_NE(o.difference->detail.find("resident"), std::string::npos) << o.difference->detail;
}

TEST(Verify, ASkippedLastUpdateIsFoundInTheFinalState) {
  VerifyCase c = streamed();
  const uint64_t updates = verify(c).stats.updates;
  const Workload workload(c.session);
  ASSERT_EQ(updates % c.schedule.steps, 0u);
  ASSERT_GT(updates, c.schedule.steps) << "several chunks";
  c.mutations.skip_update = updates;  // one chunk's, of the last step: no loss comes after it
  const VerifyOutcome o = verify(c);
  ASSERT_TRUE(o.difference);
  EXPECT_EQ(o.difference->step, c.schedule.steps);
  EXPECT_NE(o.difference->tensor.find(" (weight)"), std::string::npos) << o.difference->tensor;
  EXPECT_NE(o.difference->detail.find("bits 0x"), std::string::npos) << o.difference->detail;
  // The first tensor of the chunk that was left out, at its first element there.
  const std::string name = o.difference->tensor.substr(0, o.difference->tensor.find(" ("));
  bool found = false;
  const ChunkLayout& layout = workload.layout();
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    if (layout.params()[p].name != name) continue;
    for (const Piece& piece : layout.of_param(p)) {
      found |= piece.param_offset == o.difference->element;
    }
  }
  EXPECT_TRUE(found) << name << " differs first at element " << o.difference->element;
}

TEST(Verify, ARunThatIsNotFiniteShowsNothing) {
  VerifyCase c = streamed();
  c.schedule = {1e30, 1e30, 0, 3};
  EXPECT_THROW(verify(c), NonFinite);
}

TEST(Verify, BudgetsBelowTheLeastAreRefused) {
  VerifyCase c = streamed();
  --c.budgets.bytes[0];
  EXPECT_THROW(verify(c), DoesNotFit);
}

// ---- random cases

TEST(Verify, RandomCasesAreIdentical) {
  // Small ones, so that a build with sanitizers gets through; the command takes all.
  uint32_t tried = 0;
  for (uint64_t i = 0; tried < 5; ++i) {
    const VerifyCase c = random_case(4, i);
    const BatchShape& shape = c.session.shape;
    if (c.session.model.starts_with("gpt2:L4") || shape.rows() * shape.micro_batches > 80) continue;
    ++tried;
    const VerifyOutcome o = verify(c);
    EXPECT_FALSE(o.difference) << describe(c) << ": " << o.difference->tensor << ", "
                               << o.difference->detail;
    EXPECT_GT(o.stats.weight_fetches, 0u) << describe(c);
    EXPECT_EQ(o.peaks, o.predicted_peaks) << describe(c);
  }
}

TEST(Verify, RandomCasesDependOnSeedAndIndexAlone) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    for (uint64_t i = 0; i < 8; ++i) {
      const std::string text = describe(random_case(seed, i));
      EXPECT_EQ(describe(random_case(seed, i)), text);
      seen.insert(text);
    }
  }
  EXPECT_GE(seen.size(), 15u);
}

class RandomCases : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomCases, AllPlanAndHalfAreAtTheMinimum) {
  Coverage coverage;
  for (uint64_t i = 0; i < 40; ++i) {
    const VerifyCase c = random_case(GetParam(), i);
    const Workload workload(c.session);
    const PlanResult plan = workload.plan(c.budgets);
    EXPECT_TRUE(plan.fits) << i << ": " << describe(c);
    EXPECT_GE(c.budgets.bytes[0], plan.minimum[0]) << i;
    if (i % 2 == 0) {
      EXPECT_EQ(c.budgets.bytes[0], plan.minimum[0]) << i << ": " << describe(c);
      Budgets less = c.budgets;
      --less.bytes[0];
      // Where not all fits below the device, the linear program may need less of it than streaming.
      const bool planned = c.session.policy.starts_with("auto");
      EXPECT_TRUE(planned || !workload.plan(less).fits) << i << ": " << describe(c);
    }
    // Of tiny models `auto` may find that all on the device takes the least of it.
    if (c.budgets.bytes[1] != 0) {
      EXPECT_GT(plan.prediction.h2d_bytes, 0u) << "nothing moves: " << describe(c);
    }
    EXPECT_LE(c.session.shape.micro_batches, 4u);
    count_coverage(coverage, c, {});
  }
  // What 40 cases must have covered, whatever the seed.
  for (const char* key : {"dtype fp32",
                          "dtype bf16",
                          "accum 1",
                          "accum 2",
                          "accum 3",
                          "accum 4",
                          "clip off",
                          "optimizer adamw",
                          "optimizer sgd",
                          "threads 1",
                          "threads 2",
                          "threads 3",
                          "policy lru",
                          "policy static",
                          "recompute none",
                          "recompute block",
                          "recompute some",
                          "policy belady",
                          "delays random",
                          "delays none",
                          "evaluation between steps",
                          "policy auto",
                          "schedule horizontal",
                          "schedule vertical"}) {
    EXPECT_GE(coverage[key], 2u) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCases, ::testing::Range(uint64_t{1}, uint64_t{4}));

TEST(Verify, CoverageCountsWhatACaseIs) {
  Coverage coverage;
  VerifyCase c;
  c.session.shape.micro_batches = 3;
  c.session.policy = "static:w=0.5,o=0.25";
  c.session.threads = 2;
  c.evaluate = true;
  VerifyOutcome o;
  o.stats.weight_fetches = 5;
  o.stats.demand_misses = 1;
  o.clipped = true;
  o.peaks = o.predicted_peaks = {1, 2, 0};
  count_coverage(coverage, c, o);
  const Coverage first = {{"dtype fp32", 1},         {"accum 3", 1},
                          {"clip active", 1},        {"optimizer adamw", 1},
                          {"overlap auto", 1},       {"threads 2", 1},
                          {"policy static", 1},      {"recompute none", 1},
                          {"delays none", 1},        {"weights moved", 1},
                          {"demand misses", 1},      {"schedule horizontal", 1},
                          {"peaks as predicted", 1}, {"evaluation between steps", 1}};
  EXPECT_EQ(coverage, first);
  o = {};
  o.peaks[0] = 1;
  c.evaluate = false;
  c.session.clip = 1;
  c.delay_seed = 1;
  c.session.dtype = DType::bf16;
  c.session.recompute = kAllBlocks;
  count_coverage(coverage, c, o);
  EXPECT_EQ(coverage["clip inactive"], 1u);
  EXPECT_EQ(coverage["dtype bf16"], 1u);
  EXPECT_EQ(coverage["delays random"], 1u);
  EXPECT_EQ(coverage["recompute block"], 1u);
  EXPECT_EQ(coverage["accum 3"], 2u);
  EXPECT_EQ(coverage["weights moved"], 1u) << "these moved none";
  EXPECT_EQ(coverage["peaks as predicted"], 1u);
}

TEST(Verify, RandomTokensAreAStream) {
  const auto a = random_tokens(50, 8, 3), b = random_tokens(50, 8, 3),
             other = random_tokens(50, 8, 4);
  EXPECT_EQ(a->hash(), b->hash());
  EXPECT_NE(a->hash(), other->hash());
  std::vector<int32_t> x(32), y(32), z(32), t(32);
  a->train_batch(7, 4, x.data(), t.data());
  b->train_batch(7, 4, y.data(), z.data());
  EXPECT_EQ(x, y);
  EXPECT_EQ(t, z);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_GE(x[i], 0);
    EXPECT_LT(x[i], 50);
    if (i % 8 != 7) {
      EXPECT_EQ(t[i], x[i + 1]) << "targets are one later";
    }
  }
  other->train_batch(7, 4, y.data(), z.data());
  EXPECT_NE(x, y);
}

}  // namespace
}  // namespace strata
