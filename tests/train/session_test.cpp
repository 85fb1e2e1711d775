#include "train/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "runtime/errors.hpp"
#include "runtime/memory.hpp"
#include "train/data.hpp"
#include "train/verify.hpp"

namespace strata {
namespace {

constexpr uint32_t kVocabulary = 96, kSeq = 16;

SessionConfig small() {
  SessionConfig c;
  c.model = "gpt2:L3,D48,H3,V96,T16";
  c.shape = {2, kSeq, 2};
  c.clip = 0.5;
  return c;
}

Budgets bytes(size_t device, size_t host) {
  Budgets b;
  b.bytes = {device, host, 0};
  return b;
}

constexpr size_t kWide = size_t{1} << 40;

/// The least the policy of a workload needs when homes are on the host.
Budgets least(const Workload& w) {
  const PlanResult plan = w.plan(bytes(kWide, kWide));
  return bytes(plan.minimum[0], plan.minimum[1]);
}

/// A session and the batches of its steps.
class Running {
 public:
  Running(const Workload& w, const Budgets& b, const RunOptions& options = {})
      : workload_(w),
        session_(w, w.plan(b), b, options),
        data_(random_tokens(kVocabulary, kSeq, 5)) {}

  double step(uint64_t s) {
    const BatchShape& shape = workload_.config().shape;
    const auto samples = shape.batch * shape.micro_batches;
    Batch& b = batches_[s % 2];
    b.resize(uint64_t{samples} * kSeq);
    data_->train_batch(s * samples, samples, b.tokens.data(), b.targets.data());
    session_.step({b.tokens.data(), b.targets.data()},
                  {s, 1e-3, static_cast<double>(b.tokens.size())});
    return session_.result(0).loss;
  }

  double evaluate() {
    const uint32_t batch = workload_.config().shape.batch;
    evaluation_.resize(uint64_t{batch} * kSeq);
    data_->validation_batch(0, batch, evaluation_.tokens.data(), evaluation_.targets.data());
    return session_.evaluate({evaluation_.tokens.data(), evaluation_.targets.data()});
  }

  Session& session() { return session_; }

 private:
  struct Batch {
    std::vector<int32_t> tokens, targets;
    void resize(size_t n) {
      tokens.resize(n);
      targets.resize(n);
    }
  };

  const Workload& workload_;
  Session session_;
  std::unique_ptr<TokenSource> data_;
  std::array<Batch, 2> batches_;
  Batch evaluation_;
};

uint64_t hash_after(const SessionConfig& config, const std::optional<Budgets>& budgets = {}) {
  const Workload workload(config);
  Running run(workload, budgets ? *budgets : least(workload));
  for (uint64_t s = 0; s < 3; ++s) run.step(s);
  return run.session().state_hash();
}

uint64_t resident_hash(SessionConfig config) {
  config.policy = "resident";
  return hash_after(config, bytes(size_t{1} << 28, 0));
}

// ---- budgets

TEST(Session, RunsAtTheLeastBudgetsAndIsRefusedOneByteBelow) {
  for (const char* policy :
       {"auto", "lru", "belady", "gemini", "static:w=0,o=0", "static:w=0.5,o=0.25", "resident"}) {
    SessionConfig config = small();
    config.policy = policy;
    const Workload workload(config);
    const Budgets b = least(workload);
    Running run(workload, b);
    run.step(0);
    run.evaluate();
    EXPECT_LE(run.session().ledger().peak(Tier::device), b.bytes[0]) << policy;
    EXPECT_LE(run.session().ledger().peak(Tier::host), b.bytes[1]) << policy;
    for (const size_t tier : {0, 1}) {
      // With less of the host, what streams keeps more on the device instead.
      if (b.bytes[tier] == 0 || (tier == 1 && workload.policy().streams())) continue;
      Budgets less = b;
      --less.bytes[tier];
      const PlanResult plan = workload.plan(less);
      EXPECT_FALSE(plan.fits) << policy << ", tier " << tier;
      ASSERT_EQ(plan.shortfall.size(), 1u);
      EXPECT_EQ(plan.shortfall[0].bytes, 1u);
      EXPECT_EQ(static_cast<size_t>(plan.shortfall[0].tier), tier);
      try {
        Session(workload, plan, less);
        FAIL() << "a session was made: " << policy;
      } catch (const DoesNotFit& e) {
        EXPECT_NE(std::string(e.what()).find("short by 1 byte"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find(std::to_string(less.bytes[tier])), std::string::npos)
            << e.what();
      }
    }
  }
}

TEST(Session, WhatDoesNotFitIsRefusedBeforeAnythingIsAllocated) {
  // 1.5 G parameters: had any of their 25 GB been touched, it would show.
  SessionConfig config;
  config.model = "gpt2-xl";
  config.shape = {1, 64, 1};
  const size_t before = resident_bytes();
  const Workload workload(config);
  Budgets b = least(workload);
  EXPECT_GT(b.bytes[1], size_t{20} << 30);
  b.bytes[0] -= 1;
  EXPECT_THROW(Session(workload, workload.plan(b), b), DoesNotFit);
  EXPECT_LT(resident_bytes() - before, size_t{256} << 20);
}

TEST(Session, PeaksAreThePredictedOnes) {
  const Workload workload(small());
  const Budgets b = least(workload);
  const PlanResult plan = workload.plan(b);
  Running run(workload, b);
  run.step(0);
  run.step(1);
  run.evaluate();
  for (const size_t t : {0, 1}) {
    const Tier tier = static_cast<Tier>(t);
    EXPECT_EQ(run.session().ledger().peak(tier), plan.tiers[t].peak) << name_of(tier);
    for (size_t k = 0; k < kCategories; ++k) {
      const auto category = static_cast<Category>(k);
      EXPECT_EQ(run.session().ledger().peak(tier, category), plan.tiers[t].by_category[k])
          << name_of(tier) << ", " << name_of(category);
    }
  }
}

TEST(Session, ExternalBytesAreCharged) {
  const Workload workload(small());
  Budgets b = least(workload);
  b.external[1] = 12345;
  EXPECT_FALSE(workload.plan(b).fits) << "homes moved to a device that has no room";
  b.bytes[1] += 12345;
  ASSERT_TRUE(workload.plan(b).fits);
  Running run(workload, b);
  EXPECT_EQ(run.session().ledger().peak(Tier::host, Category::external), 12345u);
}

// ---- numbers

TEST(Session, PlacementDoesNotShowInTheState) {
  const uint64_t reference = resident_hash(small());
  const std::pair<const char*, std::function<void(SessionConfig&)>> changes[] = {
      {"lru", [](auto&) {}},
      {"all streamed", [](auto& c) { c.policy = "static:w=0,o=0"; }},
      {"some kept", [](auto& c) { c.policy = "static:w=0.5,o=0.25"; }},
      {"small chunks", [](auto& c) { c.chunk_bytes = 8192; }},
      {"large chunks", [](auto& c) { c.chunk_bytes = 1 << 17; }},
      {"three threads", [](auto& c) { c.threads = 3; }},
      {"recompute", [](auto& c) { c.recompute = kAllBlocks; }},
      {"no evaluation planned", [](auto& c) { c.evaluates = false; }}};
  for (const auto& [name, change] : changes) {
    SessionConfig config = small();
    change(config);
    EXPECT_EQ(hash_after(config), reference) << name;
  }
}

TEST(Session, WhatDecidesNumbersShowsInTheState) {
  const uint64_t reference = hash_after(small());
  const std::pair<const char*, std::function<void(SessionConfig&)>> changes[] = {
      {"seed", [](auto& c) { c.seed = 2; }},
      {"clip", [](auto& c) { c.clip = 0.25; }},
      {"weight decay", [](auto& c) { c.optimizer.weight_decay = 0.2; }},
      {"beta2", [](auto& c) { c.optimizer.beta2 = 0.9; }},
      {"micro-batches", [](auto& c) {
         c.shape = {4, kSeq, 1};
       }}};
  for (const auto& [name, change] : changes) {
    SessionConfig config = small();
    change(config);
    EXPECT_NE(hash_after(config), reference) << name;
  }
}

TEST(Session, EvaluationChangesNothing) {
  const Workload workload(small());
  const Budgets b = least(workload);
  Running plain(workload, b), evaluated(workload, b);
  std::vector<double> validation;
  for (uint64_t s = 0; s < 3; ++s) {
    validation.push_back(evaluated.evaluate());
    EXPECT_EQ(evaluated.step(s), plain.step(s)) << "loss of step " << s;
    // Here updates are pending: evaluation runs those it needs.
    validation.push_back(evaluated.evaluate());
  }
  EXPECT_EQ(evaluated.session().state_hash(), plain.session().state_hash());
  EXPECT_EQ(validation[1], validation[2]) << "the same weights";
  EXPECT_EQ(validation[3], validation[4]);
  EXPECT_LT(validation[1], validation[0]) << "after the first step";
  EXPECT_EQ(evaluated.evaluate(), validation[5]) << "reading the state changed nothing either";
}

TEST(Session, TheHashSeesTheLastBitOfTheState) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SessionConfig config = small();
    config.dtype = dtype;
    const Workload workload(config);
    Running run(workload, least(workload));
    const auto last = static_cast<ParamId>(workload.layout().params().size() - 1);
    const auto set = [&](float value) {
      run.session().engine().set_weight(last, [&](uint64_t begin, uint64_t n, float* out) {
        const uint64_t elems = workload.layout().params()[last].elems();
        for (uint64_t i = 0; i < n; ++i) out[i] = begin + i + 1 == elems ? value : 1.0f;
      });
      return run.session().state_hash();
    };
    const uint64_t reference = set(1.0f);
    EXPECT_NE(set(std::nextafter(1.0f, 2.0f)), reference) << name_of(dtype);
    EXPECT_EQ(set(1.0f), reference);
  }
}

TEST(Session, StatePlanesAreWhatTrainingKeeps) {
  SessionConfig config = small();
  using Planes = std::vector<Plane>;
  EXPECT_EQ(state_planes(Workload(config), 0), (Planes{Plane::weight, Plane::m, Plane::v}));
  config.dtype = DType::bf16;
  EXPECT_EQ(state_planes(Workload(config), 0),
            (Planes{Plane::weight, Plane::remainder, Plane::m, Plane::v}));
  config.optimizer.kind = OptimizerKind::sgd;
  EXPECT_EQ(state_planes(Workload(config), 0), (Planes{Plane::weight, Plane::remainder}));
  config.optimizer.momentum = 0.9;
  EXPECT_EQ(state_planes(Workload(config), 0), (Planes{Plane::weight, Plane::remainder, Plane::m}));
}

// ---- numerics key

std::string key(const SessionConfig& c, uint64_t data = 77,
                const LrSchedule& schedule = {1e-3, 1e-4, 2, 10}) {
  return Workload(c).numerics_key(data, schedule);
}

TEST(NumericsKey, TextIsStable) {
  const std::string text = key(small());
  const std::string expected =
      "model=gpt2:L3,D48,H3,V96,T16 dtype=fp32 batch=2 seq=16 accum=2 seed=1 data=77 clip=0.5 "
      "adamw=0.9,0.999,1e-08 decay=0.1 lr=0.001,1e-04 warmup=2 steps=10 ranks=1 kernels=";
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_GT(text.size(), expected.size()) << "libraries and instruction set";
}

TEST(NumericsKey, PlacementIsNotInIt) {
  const std::string reference = key(small());
  const std::function<void(SessionConfig&)> changes[] = {
      [](auto& c) { c.policy = "static:w=0.5,o=0.25"; },
      [](auto& c) { c.chunk_bytes = 8192; },
      [](auto& c) { c.threads = 3; },
      [](auto& c) { c.recompute = kAllBlocks; },
      [](auto& c) { c.evaluates = false; },
  };
  for (const auto& change : changes) {
    SessionConfig config = small();
    change(config);
    EXPECT_EQ(key(config), reference);
  }
}

TEST(NumericsKey, EverythingThatDecidesBitsIsInIt) {
  const std::string reference = key(small());
  EXPECT_NE(key(small(), 78), reference) << "data";
  for (const LrSchedule& s : {LrSchedule{2e-3, 1e-4, 2, 10}, LrSchedule{1e-3, 2e-4, 2, 10},
                              LrSchedule{1e-3, 1e-4, 3, 10}, LrSchedule{1e-3, 1e-4, 2, 11}}) {
    EXPECT_NE(key(small(), 77, s), reference) << "learning rates";
  }
  const std::pair<const char*, std::function<void(SessionConfig&)>> changes[] = {
      {"model", [](auto& c) { c.model = "gpt2:L3,D48,H4,V96,T16"; }},
      {"dtype", [](auto& c) { c.dtype = DType::bf16; }},
      {"batch", [](auto& c) { c.shape.batch = 3; }},
      {"seq", [](auto& c) { c.shape.seq = 8; }},
      {"accum", [](auto& c) { c.shape.micro_batches = 3; }},
      {"seed", [](auto& c) { c.seed = 2; }},
      {"clip", [](auto& c) { c.clip = 0; }},
      {"beta1", [](auto& c) { c.optimizer.beta1 = 0.8; }},
      {"beta2", [](auto& c) { c.optimizer.beta2 = 0.8; }},
      {"eps", [](auto& c) { c.optimizer.eps = 1e-7; }},
      {"decay", [](auto& c) { c.optimizer.weight_decay = 0.1 + 1e-17 + 1e-16; }},
      {"optimizer", [](auto& c) { c.optimizer.kind = OptimizerKind::sgd; }},
  };
  for (const auto& [name, change] : changes) {
    SessionConfig config = small();
    change(config);
    EXPECT_NE(key(config), reference) << name;
  }
  SessionConfig sgd = small();
  sgd.optimizer.kind = OptimizerKind::sgd;
  const std::string plain = key(sgd);
  sgd.optimizer.momentum = 0.9;
  EXPECT_NE(key(sgd), plain) << "momentum";
}

}  // namespace
}  // namespace strata
