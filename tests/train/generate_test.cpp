// Logits and tokens of inference sessions: those of the loss path, wherever the weights are.
#include "train/generate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/errors.hpp"
#include "runtime/random.hpp"
#include "tests/folder.hpp"

namespace strata {
namespace {

constexpr uint32_t kVocabulary = 96, kPositions = 200;
constexpr size_t kWide = size_t{1} << 40;

/// Programs for 64, 128 and 200 tokens.
SessionConfig inference(DType dtype = DType::f32) {
  SessionConfig c;
  c.model = "gpt2:L3,D48,H3,V96,T200";
  c.shape = {1, kPositions, 1};
  c.dtype = dtype;
  c.trains = c.evaluates = false;
  c.generates = true;
  c.threads = 2;
  return c;
}

Budgets bytes(size_t device, size_t host, size_t nvme = 0) {
  Budgets b;
  b.bytes = {device, host, nvme};
  return b;
}

Budgets least(const Workload& w, const Budgets& wide) {
  const PlanResult plan = w.plan(wide);
  Budgets b;
  b.bytes = plan.minimum;
  return b;
}
Budgets least(const Workload& w) { return least(w, bytes(kWide, kWide)); }

/// Larger weights than one starts to train with, so that tokens differ in likelihood.
void spread(const Workload& w, Session& session) {
  const auto& params = w.layout().params();
  for (ParamId p = 0; p < params.size(); ++p) {
    if (params[p].shape.size() < 2) continue;
    session.engine().set_weight(p, [&](uint64_t begin, uint64_t n, float* out) {
      const uint64_t stream = random_stream(RandomUse::test, p);
      for (uint64_t i = 0; i < n; ++i) out[i] = 0.2f * random_normal(3, stream, begin + i);
    });
  }
}

struct Running {
  explicit Running(const SessionConfig& config, const std::optional<Budgets>& budgets = {},
                   const RunOptions& options = {})
      : workload(config),
        plan(workload.plan(budgets ? *budgets : least(workload))),
        session(workload, plan, budgets ? *budgets : least(workload), options) {
    spread(workload, session);
  }

  std::vector<float> logits(std::span<const int32_t> tokens) {
    std::vector<float> out(kVocabulary);
    session.next_logits(tokens, out);
    return out;
  }
  std::vector<int32_t> write(std::span<const int32_t> prompt, const GenerateOptions& options) {
    return Generator(workload, session).run(prompt, options);
  }

  Workload workload;
  PlanResult plan;
  Session session;
};

std::vector<int32_t> tokens_of(uint64_t seed, size_t n) {
  std::vector<int32_t> out(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<int32_t>(
        random_below(seed, random_stream(RandomUse::test, 99), i, kVocabulary));
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double loss_of(const std::vector<float>& logits, int32_t target) {
  double highest = logits[0], sum = 0;
  for (const float x : logits) highest = std::max<double>(highest, x);
  for (const float x : logits) sum += std::exp(x - highest);
  return highest + std::log(sum) - logits[static_cast<size_t>(target)];
}

// ---- logits

TEST(NextLogits, AreThoseOfTheEvaluationLoss) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SessionConfig config = inference(dtype);
    config.evaluates = true;
    Running run(config);
    const std::vector<int32_t> tokens = tokens_of(1, kPositions);
    double spread = 0;
    for (const size_t count : {1, 2, 63, 64, 65, 127, 128, 129, 199, 200}) {
      const std::vector<float> logits = run.logits(std::span(tokens).first(count));
      for (const int32_t target : {0, 17, 95}) {
        std::vector<int32_t> targets(kPositions, -1);
        targets[count - 1] = target;
        const double expected = run.session.evaluate({tokens.data(), targets.data()});
        const double loss = loss_of(logits, target);
        const double tolerance = dtype == DType::f32 ? 1e-5 : 2e-2;
        EXPECT_NEAR(loss, expected, tolerance * std::max(1.0, expected))
            << name_of(dtype) << ", " << count << " tokens, target " << target;
        spread = std::max(spread, std::abs(expected - std::log(kVocabulary)));
      }
    }
    EXPECT_GT(spread, 0.5) << "all tokens are as likely: nothing was compared";
  }
}

TEST(NextLogits, DoNotDependOnTheProgramsLengthOrItsPadding) {
  // Programs for 192 and for 256 tokens: whole blocks of 64 rows.
  SessionConfig config = inference();
  config.model = "gpt2:L3,D48,H3,V96,T192";
  Running narrow(config);
  config.model = "gpt2:L3,D48,H3,V96,T320";
  Running wide(config);
  const std::vector<int32_t> tokens = tokens_of(2, 190);
  for (const size_t count : {129, 150, 190}) {
    const auto part = std::span(tokens).first(count);
    EXPECT_TRUE(same_bits(narrow.logits(part), wide.logits(part))) << count;
  }
  for (const size_t count : {1, 40, 64}) {
    const auto part = std::span(tokens).first(count);
    const auto before = wide.logits(part);
    wide.logits(tokens);  // leaves other tokens and values behind
    EXPECT_TRUE(same_bits(wide.logits(part), before)) << count;
  }
}

TEST(NextLogits, WhatCannotBeGoneOnFromIsRefused) {
  Running run(inference());
  std::vector<float> out(kVocabulary), few(kVocabulary - 1);
  const auto refuse = [&](const std::vector<int32_t>& tokens, const char* part) {
    try {
      run.session.next_logits(tokens, out);
      FAIL() << "accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refuse({}, "1 to 200");
  refuse(std::vector<int32_t>(201, 0), "201");
  refuse({1, 96}, "token 96");
  refuse({-1}, "token -1");
  EXPECT_THROW(run.session.next_logits(std::vector<int32_t>{1}, few), StateError);
  EXPECT_THROW(run.session.evaluate({}), StateError);
  EXPECT_THROW(run.session.step({}, {}), StateError);
  run.session.next_logits(std::vector<int32_t>{1}, out);
  EXPECT_TRUE(std::isfinite(out[0])) << "it still works";
  SessionConfig nothing = inference();
  nothing.generates = false;
  EXPECT_THROW(Workload{nothing}, ConfigError);
}

// ---- placement

TEST(Generator, PlacementDoesNotShowInTheTokens) {
  const Folder folder;
  const std::vector<int32_t> prompt = tokens_of(3, 60);
  const GenerateOptions options{12, {0.9, 20, 5}};  // across the end of a program
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SessionConfig config = inference(dtype);
    config.policy = "resident";
    Running resident(config, bytes(size_t{1} << 28, 0));
    const auto expected = resident.write(prompt, options);
    const auto logits = resident.logits(prompt);
    EXPECT_EQ(resident.session.engine().stats().weight_fetches, 0u);
    for (const char* policy : {"lru", "belady", "static:w=0,o=0", "static:w=0.5,o=0"}) {
      for (const bool nvme : {false, true}) {
        for (const uint32_t threads : {1u, 3u}) {
          config.policy = policy;
          config.threads = threads;
          RunOptions run;
          run.delay_seed = 7;
          if (nvme) run.nvme = {{folder.path()}, "auto"};
          const Budgets b =
              least(Workload(config), nvme ? bytes(kWide, 0, kWide) : bytes(kWide, kWide));
          Running under(config, b, run);
          const std::string what = std::string(name_of(dtype)) + " " + policy +
                                   (nvme ? " nvme" : " host") + " threads " +
                                   std::to_string(threads);
          EXPECT_EQ(under.write(prompt, options), expected) << what;
          EXPECT_TRUE(same_bits(under.logits(prompt), logits)) << what;
          const EngineStats& stats = under.session.engine().stats();
          EXPECT_GT(stats.weight_fetches, 0u) << what;
          EXPECT_EQ(stats.nvme_read_bytes != 0, nvme) << what;
          EXPECT_EQ(under.session.nvme() != nullptr, nvme) << what;
          EXPECT_LT(under.session.ledger().peak(Tier::device, Category::weight),
                    under.workload.weight_bytes())
              << what << ": all weights were on the device";
          for (size_t t = 0; t < kTiers; ++t) {
            EXPECT_EQ(under.session.ledger().peak(static_cast<Tier>(t)), under.plan.tiers[t].peak)
                << what << ", tier " << t;
            EXPECT_LE(under.session.ledger().peak(static_cast<Tier>(t)), b.bytes[t]) << what;
          }
        }
      }
    }
  }
}

TEST(Generator, AnyShareOfTheWeightsOnNvmeGivesTheSameTokens) {
  const Folder folder;
  SessionConfig config = inference();
  config.chunk_bytes = 40960;
  Running resident(config, bytes(size_t{1} << 28, size_t{1} << 28));
  const std::vector<int32_t> prompt = tokens_of(4, 10);
  const auto expected = resident.write(prompt, {6, {}});
  const Workload workload(config);
  const size_t host = least(workload).bytes[1];
  for (const size_t units : {1, 2, 3, 5, 9}) {
    const Budgets b = least(workload, bytes(kWide, units * 40960, kWide));
    ASSERT_LT(b.bytes[1], host);
    RunOptions options;
    options.nvme = {{folder.path()}, "threads"};
    Running under(config, b, options);
    EXPECT_EQ(under.write(prompt, {6, {}}), expected) << units << " units of the host";
    EXPECT_GT(under.session.ledger().peak(Tier::nvme), 0u);
  }
}

TEST(InferencePlan, HoldsWeightsAlone) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SessionConfig config = inference(dtype);
    config.evaluates = true;
    const Workload workload(config);
    EXPECT_EQ(workload.state_bytes(), workload.weight_bytes());
    EXPECT_EQ(state_planes(workload, 0), (std::vector<Plane>{Plane::weight}));
    for (const char* policy : {"resident", "lru", "belady"}) {
      config.policy = policy;
      const Workload w(config);
      const PlanResult plan = w.plan(bytes(kWide, kWide));
      ASSERT_TRUE(plan.fits);
      for (const TierReport& tier : plan.tiers) {
        EXPECT_EQ(tier.by_category[static_cast<size_t>(Category::grad)], 0u) << policy;
        EXPECT_EQ(tier.by_category[static_cast<size_t>(Category::optimizer)], 0u) << policy;
      }
    }
    EXPECT_EQ(workload.plan(bytes(kWide, kWide)).minimum[1], workload.weight_bytes());
    SessionConfig training = config;
    training.trains = true;
    EXPECT_GE(Workload(training).state_bytes(), 4 * workload.weight_bytes());
  }
}

TEST(InferencePlan, BelowTheMinimumIsRefused) {
  for (const char* policy : {"resident", "lru", "static:w=0.5,o=0"}) {
    SessionConfig config = inference();
    config.policy = policy;
    const Workload workload(config);
    Budgets b = least(workload);
    EXPECT_TRUE(workload.plan(b).fits);
    b.bytes[0] -= 1;
    const PlanResult plan = workload.plan(b);
    EXPECT_FALSE(plan.fits) << policy;
    EXPECT_THROW(Session(workload, plan, b), DoesNotFit) << policy;
  }
}

TEST(InferencePlan, ALoadedPlaneIsWhatIsRead) {
  // As from a checkpoint: without initial weights, from bytes.
  const Folder folder;
  SessionConfig config = inference(DType::bf16);
  const Workload workload(config);
  for (const bool nvme : {false, true}) {
    const Budgets b = least(workload, nvme ? bytes(kWide, 0, kWide) : bytes(kWide, kWide));
    RunOptions options;
    options.initialize = false;
    if (nvme) options.nvme = {{folder.path()}, "auto"};
    Session session(workload, workload.plan(b), b, options);
    session.engine().load(3, Plane::weight, [](uint64_t offset, std::byte* to, size_t n) {
      for (size_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(7 * (offset + i));
    });
    const std::vector<std::byte> read = session.read(3, Plane::weight);
    for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], static_cast<std::byte>(7 * i));
  }
}

TEST(Generator, GoesOnInATrainingSession) {
  SessionConfig config = inference();
  config.trains = true;
  config.shape = {2, 16, 1};
  Running run(config);
  const std::vector<int32_t> prompt = tokens_of(5, 5), batch = tokens_of(6, 33);
  const auto before = run.logits(prompt);
  run.session.step({batch.data(), batch.data() + 1}, {0, 1e-2, 32});
  // The update is pending; what is asked for runs it.
  const auto after = run.logits(prompt);
  EXPECT_FALSE(same_bits(after, before));
  run.session.flush();
  EXPECT_TRUE(same_bits(run.logits(prompt), after));
}

// ---- tokens

TEST(Generator, TheLikeliestTokenIsTakenWithoutTemperature) {
  Running run(inference());
  const std::vector<int32_t> prompt = tokens_of(7, 3);
  const auto greedy = run.write(prompt, {20, {0.0, 0, 1}});
  ASSERT_EQ(greedy.size(), 20u);
  std::vector<int32_t> sequence = prompt;
  for (const int32_t token : greedy) {
    const auto logits = run.logits(sequence);
    EXPECT_EQ(token, std::max_element(logits.begin(), logits.end()) - logits.begin());
    sequence.push_back(token);
  }
  EXPECT_EQ(run.write(prompt, {20, {5.0, 1, 2}}), greedy) << "one of one";
  EXPECT_EQ(run.write(prompt, {20, {1e-9, 0, 2}}), greedy);
  EXPECT_NE(run.write(prompt, {20, {5.0, 0, 2}}), greedy);
}

TEST(Generator, TheSeedDecides) {
  Running run(inference());
  const std::vector<int32_t> prompt = tokens_of(8, 4);
  const auto first = run.write(prompt, {16, {1.0, 0, 1}});
  EXPECT_EQ(run.write(prompt, {16, {1.0, 0, 1}}), first);
  EXPECT_NE(run.write(prompt, {16, {1.0, 0, 2}}), first);
  // A sequence gone on with is the one written at once.
  auto longer = prompt;
  longer.insert(longer.end(), first.begin(), first.begin() + 6);
  const std::vector<int32_t> rest(first.begin() + 6, first.end());
  EXPECT_EQ(run.write(longer, {10, {1.0, 0, 1}}), rest);
}

TEST(Generator, OnlyTheNewestPositionsAreSeen) {
  SessionConfig config = inference();
  config.model = "gpt2:L2,D32,H2,V96,T8";
  config.shape.seq = 8;
  Running run(config);
  const std::vector<int32_t> prompt = tokens_of(9, 21);
  const auto written = run.write(prompt, {10, {0.0, 0, 1}});
  std::vector<int32_t> sequence = prompt;
  for (const int32_t token : written) {
    const auto logits = run.logits(std::span(sequence).last(8));
    EXPECT_EQ(token, choose_token(logits, {0.0, 0, 1}, sequence.size()));
    sequence.push_back(token);
  }
  auto other = prompt;
  for (size_t i = 0; i < 13; ++i) other[i] = 0;
  EXPECT_EQ(run.write(other, {10, {0.0, 0, 1}}), written) << "the rest is not seen";
}

TEST(Generator, TheCallerIsToldEachTokenAndCanStop) {
  Running run(inference());
  Generator generator(run.workload, run.session);
  const std::vector<int32_t> prompt = tokens_of(10, 4);
  std::vector<int32_t> told;
  const auto all = generator.run(prompt, {9, {}}, [&](int32_t t) {
    told.push_back(t);
    return true;
  });
  EXPECT_EQ(all.size(), 9u);
  EXPECT_EQ(told, all);
  told.clear();
  const auto some = generator.run(prompt, {9, {}}, [&](int32_t t) {
    told.push_back(t);
    return told.size() < 4;
  });
  EXPECT_EQ(some, std::vector<int32_t>(all.begin(), all.begin() + 4));
  EXPECT_EQ(told, some);
  EXPECT_TRUE(generator.run(prompt, {0, {}}).empty());
  EXPECT_THROW(generator.run({}, {1, {}}), ConfigError);
}

}  // namespace
}  // namespace strata
