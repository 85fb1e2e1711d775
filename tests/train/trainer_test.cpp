#include "train/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/errors.hpp"
#include "train/verify.hpp"

namespace strata {
namespace {

constexpr uint32_t kVocabulary = 96, kSeq = 16;

SessionConfig small() {
  SessionConfig c;
  c.model = "gpt2:L2,D32,H2,V96,T16";
  c.shape = {2, kSeq, 2};
  return c;
}

TrainerConfig steps(uint64_t n) {
  TrainerConfig t;
  t.schedule = {1e-3, 1e-4, 2, n};
  t.evaluate_batches = 3;
  return t;
}

/// A session at its least budgets, and its data.
class Running {
 public:
  explicit Running(const SessionConfig& config)
      : workload_(config),
        budgets_(least()),
        session_(workload_, workload_.plan(budgets_), budgets_, options()),
        data_(random_tokens(kVocabulary, kSeq, 5)) {}

  std::vector<StepMetrics> train(const TrainerConfig& config) {
    std::vector<StepMetrics> out;
    Trainer trainer(workload_, session_, *data_, config);
    trainer.run([&](const StepMetrics& m) { out.push_back(m); });
    return out;
  }

  /// Trains until the error that is expected; its message. `reported`: steps it was told of.
  std::string fail(const TrainerConfig& config, uint64_t reported) {
    uint64_t seen = 0;
    try {
      Trainer trainer(workload_, session_, *data_, config);
      trainer.run([&](const StepMetrics&) { ++seen; });
    } catch (const NonFinite& e) {
      EXPECT_EQ(e.exit_code(), 6);
      EXPECT_EQ(seen, reported) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "nothing was found";
    return "";
  }

  /// Weights under which one sum overflows and no other: layer 1's c_fc puts out exact zeros,
  /// whatever is in its huge input, so the loss is finite; the gradient of its weight is that input
  /// times what comes back through c_proj.
  void make_one_gradient_overflow() {
    set("h.1.ln_2.weight", 5e37f, 5e37f);
    set("h.1.mlp.c_fc.weight", 0, 0);
    set("h.1.mlp.c_proj.weight", 1e6f, 0);
  }

  Session& session() { return session_; }
  const Budgets& budgets() const { return budgets_; }

 private:
  /// Elements of a weight, by turns.
  void set(const std::string& name, float even, float odd) {
    const auto& params = workload_.layout().params();
    for (ParamId p = 0; p < params.size(); ++p) {
      if (params[p].name != name) continue;
      session_.engine().set_weight(p, [&](uint64_t begin, uint64_t n, float* out) {
        for (uint64_t i = 0; i < n; ++i) out[i] = (begin + i) % 2 == 0 ? even : odd;
      });
    }
  }
  Budgets least() const {
    Budgets b;
    b.bytes = {size_t{1} << 40, size_t{1} << 40, 0};
    const PlanResult plan = workload_.plan(b);
    b.bytes = {plan.minimum[0], plan.minimum[1], 0};
    return b;
  }
  static RunOptions options() {
    RunOptions o;
    o.delay_seed = 3;
    return o;
  }

  Workload workload_;
  Budgets budgets_;
  Session session_;
  std::unique_ptr<TokenSource> data_;
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Trainer, ReportsEveryStepOnceAndInOrder) {
  for (const uint64_t every : {0u, 1u, 2u, 3u, 7u}) {
    TrainerConfig config = steps(7);
    config.evaluate_every = every;
    const std::vector<StepMetrics> all = Running(small()).train(config);
    ASSERT_EQ(all.size(), 7u) << every;
    for (uint64_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].step, i + 1) << every;
      EXPECT_EQ(all[i].tokens, (i + 1) * 2 * 2 * kSeq);
      EXPECT_EQ(all[i].lr, config.schedule.at(i));
      EXPECT_EQ(all[i].validation_loss.has_value(),
                i + 1 == 7 || (every != 0 && (i + 1) % every == 0))
          << "step " << i + 1 << ", evaluated every " << every;
      EXPECT_GT(all[i].step_ms, 0);
      EXPECT_GE(all[i].stall_ms, 0);
      EXPECT_GT(all[i].tokens_per_second, 0);
      EXPECT_GT(all[i].grad_norm, 0);
    }
  }
}

TEST(Trainer, OneStepIsATraining) {
  const std::vector<StepMetrics> all = Running(small()).train(steps(1));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].validation_loss);
}

TEST(Trainer, EvaluatingOftenChangesNoLoss) {
  const std::vector<StepMetrics> rarely = Running(small()).train(steps(6));
  TrainerConfig config = steps(6);
  config.evaluate_every = 1;
  const std::vector<StepMetrics> often = Running(small()).train(config);
  for (size_t i = 0; i < rarely.size(); ++i) {
    EXPECT_EQ(often[i].loss, rarely[i].loss) << i;
    EXPECT_EQ(often[i].grad_norm, rarely[i].grad_norm) << i;
  }
  EXPECT_EQ(*often.back().validation_loss, *rarely.back().validation_loss);
  EXPECT_NEAR(rarely[0].loss, std::log(kVocabulary), 0.2) << "a mean over tokens";
  EXPECT_NEAR(*often[0].validation_loss, std::log(kVocabulary), 0.2);
}

TEST(Trainer, WithoutAnEvaluationProgramNothingIsEvaluated) {
  SessionConfig config = small();
  config.evaluates = false;
  TrainerConfig trainer = steps(3);
  trainer.evaluate_every = 1;
  for (const StepMetrics& m : Running(config).train(trainer)) EXPECT_FALSE(m.validation_loss);
}

TEST(Trainer, BytesAreThoseOfTheStepAndOfAnEvaluationAfterIt) {
  TrainerConfig config = steps(6);
  config.evaluate_every = 3;
  Running run(small());
  const std::vector<StepMetrics> all = run.train(config);
  uint64_t h2d = 0, d2h = 0;
  for (const StepMetrics& m : all) {
    EXPECT_GT(m.h2d_bytes, 0u);
    EXPECT_GT(m.d2h_bytes, 0u);
    EXPECT_LE(m.used_peak_device_bytes, run.budgets().bytes[0]);
    EXPECT_LE(m.used_peak_host_bytes, run.budgets().bytes[1]);
    EXPECT_GT(m.used_peak_device_bytes, 0u);
    EXPECT_GT(m.used_peak_host_bytes, 0u);
    EXPECT_GT(m.resident_bytes, 1u << 20);
    h2d += m.h2d_bytes;
    d2h += m.d2h_bytes;
  }
  // Nothing changes from step to step but for evaluations, after the third and the last.
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i].d2h_bytes, all[1].d2h_bytes) << "step " << i + 1;
    if (i == 3) continue;  // begins with what the evaluation left on the device
    if (all[i].validation_loss) {
      EXPECT_GT(all[i].h2d_bytes, all[1].h2d_bytes) << "step " << i + 1;
    } else {
      EXPECT_EQ(all[i].h2d_bytes, all[1].h2d_bytes) << "step " << i + 1;
    }
  }
  EXPECT_EQ(run.session().engine().stats().h2d_bytes, h2d) << "none is left out";
  EXPECT_EQ(run.session().engine().stats().d2h_bytes, d2h);
}

TEST(Trainer, ALossThatIsNotFiniteNamesStepAndTensor) {
  TrainerConfig config = steps(5);
  config.schedule = {1e30, 1e30, 0, 5};
  const std::string text = Running(small()).fail(config, 1);
  EXPECT_CONTAINS(text, "the loss and the gradient of wte.weight are not finite at step 2");
  EXPECT_CONTAINS(text, "no weight was changed");
  EXPECT_CONTAINS(text, "--lr");
}

TEST(Trainer, AGradientThatIsNotFiniteNamesTheTensor) {
  for (const double clip : {1.0, 0.0}) {
    SessionConfig config = small();
    config.clip = clip;
    Running run(config);
    run.make_one_gradient_overflow();
    const std::string text = run.fail(steps(4), 0);
    EXPECT_CONTAINS(text, "the gradient of h.1.mlp.c_fc.weight is not finite at step 1");
    EXPECT_EQ(text.find("no weight was changed") != std::string::npos, clip > 0)
        << "without clipping, other chunks have been updated: " << text;
  }
}

TEST(Trainer, ANonFiniteStepAndThoseAfterItChangeNothing) {
  Running run(small());
  run.make_one_gradient_overflow();
  const uint64_t before = run.session().state_hash();
  run.fail(steps(4), 0);
  EXPECT_EQ(run.session().state_hash(), before);
}

TEST(Trainer, AWeightThatIsNotFiniteIsFoundAfterTheLastStepToo) {
  TrainerConfig config = steps(1);
  config.schedule = {1e39, 1e39, 0, 1};  // infinite as fp32
  SessionConfig session = small();
  session.evaluates = false;
  EXPECT_CONTAINS(Running(session).fail(config, 1),
                  "the updated wte.weight is not finite at step 1");
}

TEST(Trainer, AnErrorLeavesNoStepReadingFreedBatches) {
  // Steps go on for a while after the one that is reported; AddressSanitizer sees what they read.
  SessionConfig config = small();
  config.shape.micro_batches = 8;
  Running run(config);
  TrainerConfig trainer_config = steps(9);
  const auto data = random_tokens(kVocabulary, kSeq, 5);
  const Workload workload(config);
  {
    Trainer trainer(workload, run.session(), *data, trainer_config);
    EXPECT_THROW(trainer.run([](const StepMetrics&) { throw IoError("disk full"); }), IoError);
  }
  run.session().state_hash();
}

}  // namespace
}  // namespace strata
