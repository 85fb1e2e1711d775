// GPT-2 against PyTorch: losses, gradients and updates of the golden models, resident.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/golden/golden.hpp"
#include "train/session.hpp"

namespace strata {
namespace {

/// Rounding costs a PyTorch run in float32 a part `float32_error` of a tensor's norm. Ours adds in
/// another order and takes exp and tanh from polynomials: an error of the same size, of which
/// `error` may see several times as much, as its projection has a length of its own. The golden
/// digits end at 1e-8.
double tolerance(const golden::Tensor& t) { return 8 * t.float32_error + 2e-7; }

/// Of a loss or norm, relative.
constexpr double kScalar = 1e-6;

SessionConfig config_of(const golden::Case& c) {
  SessionConfig s;
  s.model = c.model;
  s.shape = {c.batch, c.seq, 1};
  s.policy = "resident";
  s.clip = 0;
  return s;
}

/// A resident session on the golden weights and tokens.
class Resident {
 public:
  Resident(const golden::Case& c, const SessionConfig& config)
      : case_(c),
        workload_(config),
        session_(workload_, workload_.plan(budgets()), budgets()),
        tokens_(2),
        targets_(2) {
    for (const ParamSpec& spec : workload_.layout().params()) {
      session_.engine().set_weight(id(spec.name), [&](uint64_t begin, uint64_t n, float* out) {
        for (uint64_t i = 0; i < n; ++i) out[i] = golden::weight(spec.name, begin + i);
      });
    }
  }

  /// Trains on the golden batch of a step, repeated as often as it fits the session's step.
  StepResult step(uint32_t s, double lr) {
    const BatchShape& shape = workload_.config().shape;
    const uint64_t rows = shape.rows() * shape.micro_batches;
    auto &tokens = tokens_[s % 2], &targets = targets_[s % 2];
    tokens = repeat(case_.tokens(s), rows);
    targets = repeat(case_.targets(s), rows);
    session_.step({tokens.data(), targets.data()}, {s, lr, static_cast<double>(rows)});
    return session_.result(0);
  }

  std::vector<float> read(const std::string& name, Plane plane) {
    const ParamId p = id(name);
    const bool wide = plane == Plane::grad ? workload_.shape().grad_type() == DType::f32
                                           : workload_.config().dtype == DType::f32;
    std::vector<float> out(workload_.layout().params()[p].elems());
    const std::vector<std::byte> bytes = session_.read(p, plane);
    if (wide) {
      std::memcpy(out.data(), bytes.data(), bytes.size());
      return out;
    }
    const auto* narrow = reinterpret_cast<const Bf16*>(bytes.data());
    for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(narrow[i]);
    return out;
  }

  void expect(const std::vector<golden::Tensor>& tensors, Plane plane) {
    for (const golden::Tensor& t : tensors) {
      EXPECT_LE(t.error(read(t.name, plane)), tolerance(t))
          << case_.model << ", " << name_of(plane) << " of " << t.name;
    }
  }

  Session& session() { return session_; }
  const Workload& workload() const { return workload_; }

 private:
  static Budgets budgets() {
    Budgets b;
    b.bytes[0] = size_t{1} << 30;
    return b;
  }

  static std::vector<int32_t> repeat(const std::vector<int32_t>& once, uint64_t rows) {
    std::vector<int32_t> out(rows);
    for (uint64_t i = 0; i < rows; ++i) out[i] = once[i % once.size()];
    return out;
  }

  ParamId id(const std::string& name) const {
    const auto& params = workload_.layout().params();
    for (ParamId p = 0; p < params.size(); ++p) {
      if (params[p].name == name) return p;
    }
    throw std::out_of_range("no parameter " + name);
  }

  const golden::Case& case_;
  Workload workload_;
  Session session_;
  std::vector<std::vector<int32_t>> tokens_, targets_;
};

class Gpt2Golden : public ::testing::TestWithParam<size_t> {
 protected:
  static const golden::Case& golden_case() {
    static const std::vector<golden::Case> cases = golden::load();
    return cases.at(GetParam());
  }
};

TEST_P(Gpt2Golden, LossAndEveryGradient) {
  const golden::Case& c = golden_case();
  Resident r(c, config_of(c));
  ASSERT_EQ(r.workload().layout().params().size(), c.gradients.size()) << "every tensor is known";
  const StepResult result = r.step(0, 1e-3);
  EXPECT_NEAR(result.loss, c.loss, kScalar * c.loss);
  EXPECT_NEAR(result.grad_norm, c.gradient_norm, 8 * kScalar * c.gradient_norm);
  r.expect(c.gradients, Plane::grad);
}

TEST_P(Gpt2Golden, ClippingLeavesTheGradientItself) {
  const golden::Case& c = golden_case();
  SessionConfig config = config_of(c);
  config.clip = 1;
  Resident r(c, config);
  EXPECT_NEAR(r.step(0, 1e-3).grad_norm, c.gradient_norm, 8 * kScalar * c.gradient_norm);
  r.expect(c.gradients, Plane::grad);
}

TEST_P(Gpt2Golden, TwoMicroBatchesAreOneBatch) {
  const golden::Case& c = golden_case();
  SessionConfig config = config_of(c);
  config.shape = {c.batch / 2, c.seq, 2};
  Resident r(c, config);
  EXPECT_NEAR(r.step(0, 1e-3).loss, c.loss, kScalar * c.loss);
  r.expect(c.gradients, Plane::grad);
}

TEST_P(Gpt2Golden, MoreRowsThanABlockOfTheLoss) {
  // The loss goes over blocks of 256 rows. Copies of the batch have its mean loss and gradients;
  // the last block is not full.
  const golden::Case& c = golden_case();
  const uint32_t copies = 300 / (c.batch * c.seq) + 1;
  ASSERT_NE(copies * c.batch * c.seq % 256, 0u);
  SessionConfig config = config_of(c);
  config.shape.batch = copies * c.batch;
  Resident r(c, config);
  EXPECT_NEAR(r.step(0, 1e-3).loss, c.loss, kScalar * c.loss);
  r.expect(c.gradients, Plane::grad);
}

TEST_P(Gpt2Golden, RecomputeChangesNoBit) {
  const golden::Case& c = golden_case();
  std::vector<uint64_t> hashes;
  std::vector<double> losses;
  std::vector<std::vector<uint32_t>> again;
  for (const uint32_t recompute : {0u, kAllBlocks, 1u}) {
    SessionConfig config = config_of(c);
    config.recompute = recompute;
    config.clip = 1;
    Resident r(c, config);
    for (uint32_t s = 0; s < 2; ++s) losses.push_back(r.step(s, 1e-3).loss);
    hashes.push_back(r.session().state_hash());
    std::vector<uint32_t>& blocks = again.emplace_back();
    for (const auto& call : r.workload().program(Mode::train).calls()) {
      if (call.kind == CallKind::reforward) blocks.push_back(call.block);
    }
  }
  std::vector<uint32_t> layers(c.layers);
  std::iota(layers.rbegin(), layers.rend(), 1u);
  EXPECT_EQ(again, (std::vector<std::vector<uint32_t>>{{}, layers, {1}}));
  EXPECT_EQ(hashes, std::vector<uint64_t>(3, hashes[0]));
  for (size_t i = 2; i < losses.size(); ++i) EXPECT_EQ(losses[i], losses[i % 2]);
}

TEST_P(Gpt2Golden, LossOfEachToken) {
  // Evaluation on the golden batch with all targets masked but one.
  const golden::Case& c = golden_case();
  Resident r(c, config_of(c));
  const std::vector<int32_t> tokens = c.tokens(0), all = c.targets(0);
  EXPECT_NEAR(r.session().evaluate({tokens.data(), all.data()}), c.loss * double(all.size()),
              kScalar * c.loss * double(all.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<int32_t> one(all.size(), -1);
    one[i] = all[i];
    EXPECT_NEAR(r.session().evaluate({tokens.data(), one.data()}), c.token_losses[i],
                2 * kScalar * c.token_losses[i])
        << "token " << i;
  }
}

TEST_P(Gpt2Golden, OptimizerSteps) {
  const golden::Case& c = golden_case();
  for (const golden::Run& run : c.runs) {
    SCOPED_TRACE(c.model + ", " + run.optimizer + ", clip " + std::to_string(run.clip) +
                 ", momentum " + std::to_string(run.momentum));
    SessionConfig config = config_of(c);
    config.optimizer = {run.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw,
                        run.beta1,
                        run.beta2,
                        run.eps,
                        run.weight_decay,
                        run.momentum};
    config.clip = run.clip;
    // Rounding that grows from step to step shows in the weights, and so do the norms.
    double grown = 8 * kScalar;
    for (const golden::Tensor& t : run.weights) grown = std::max(grown, 8 * t.float32_error);
    Resident r(c, config);
    for (uint32_t s = 0; s < run.steps; ++s) {
      const StepResult result = r.step(s, run.lr);
      EXPECT_NEAR(result.loss, run.losses[s], kScalar * run.losses[s]) << "step " << s;
      EXPECT_NEAR(result.grad_norm, run.gradient_norms[s], grown * run.gradient_norms[s])
          << "step " << s;
    }
    r.expect(run.weights, Plane::weight);
  }
}

TEST_P(Gpt2Golden, AClipThatIsNeverActiveIsAsNone) {
  const golden::Case& c = golden_case();
  std::vector<uint64_t> hashes;
  for (const double clip : {0.0, 100.0}) {
    SessionConfig config = config_of(c);
    config.clip = clip;
    Resident r(c, config);
    for (uint32_t s = 0; s < 3; ++s) r.step(s, 1e-3);
    hashes.push_back(r.session().state_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST_P(Gpt2Golden, Bf16IsNear) {
  // A value rounded to bf16 is off by 2^-9 of itself at most; a gradient has come through some
  // twenty such roundings, of which most cancel.
  const golden::Case& c = golden_case();
  for (const uint32_t accum : {1u, 2u}) {
    SessionConfig config = config_of(c);
    config.dtype = DType::bf16;
    config.shape = {c.batch / accum, c.seq, accum};
    Resident r(c, config);
    const StepResult result = r.step(0, 1e-3);
    EXPECT_NEAR(result.loss, c.bf16_loss, 2e-3 * c.bf16_loss);
    EXPECT_NEAR(result.grad_norm, c.bf16_gradient_norm, 0.02 * c.bf16_gradient_norm);
    for (size_t i = 0; i < c.gradients.size(); ++i) {
      const golden::Tensor& t = c.gradients[i];
      const std::vector<float> actual = r.read(t.name, Plane::grad);
      double squares = 0;
      for (const float x : actual) squares += double(x) * x;
      EXPECT_NEAR(std::sqrt(squares), c.bf16_gradient_norms[i], 0.05 * c.bf16_gradient_norms[i])
          << c.model << ", gradient of " << t.name;
      EXPECT_LE(t.error(actual), 0.1) << c.model << ", gradient of " << t.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Gpt2Golden, ::testing::Range(size_t{0}, size_t{2}));

}  // namespace
}  // namespace strata
