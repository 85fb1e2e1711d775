// Losses, gradients and weights that are not finite: nothing is applied any more, and the tensor at
// fault is named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

ParamId param(const Rig& rig, const std::string& name) {
  const auto params = rig.plans.layout.params();
  for (ParamId p = 0; p < params.size(); ++p) {
    if (params[p].name == name) return p;
  }
  throw std::logic_error("no tensor " + name);
}

/// Sets a tensor element by element; `f` gets the index and the initial weight.
template <class F>
void set(Rig& rig, const std::string& name, F f) {
  const ParamId p = param(rig, name);
  rig.engine->set_weight(p, [&](uint64_t begin, uint64_t n, float* out) {
    for (uint64_t i = 0; i < n; ++i) out[i] = f(begin + i, rig.plans.model.initial(p, begin + i));
  });
}

StepResult step(Rig& rig, uint64_t s) {
  rig.step(s);
  rig.engine->flush();
  return rig.engine->result(0);
}

constexpr uint32_t kWidth = 40;

/// Makes the gradient of `h.<layer>.w` and of those after it overflow, while the loss, all values
/// and all other gradients stay finite: feature 0 is huge and reaches the loss through no weight,
/// the others' gradients are large, and the blocks before `layer` are saturated.
void make_gradient_overflow(Rig& rig, uint32_t layer) {
  set(rig, "emb", [](uint64_t e, float w) { return e % kWidth == 0 ? 1e25f : w; });
  set(rig, "frozen", [](uint64_t e, float w) { return e % kWidth == 0 ? 0.0f : 1e10f * w; });
  for (uint32_t l = 0; l < rig.plans.config.shape.layers; ++l) {
    const std::string name = "h." + std::to_string(l);
    set(rig, name + ".w", [](uint64_t e, float w) { return e < kWidth ? 0.0f : w; });
    set(rig, name + ".b", [&](uint64_t, float w) { return l < layer ? 100.0f : w; });
  }
}

using Parameter = std::tuple<std::string, double>;

class NonFinite : public ::testing::TestWithParam<Parameter> {
 protected:
  static Config config() {
    Config c;
    c.shape = {3, kWidth, 100, 6, DType::f32};
    c.policy = std::get<0>(GetParam());
    c.memory = 0;
    c.clip = std::get<1>(GetParam());
    c.delay_seed = 3;
    return c;
  }
};

TEST_P(NonFinite, LossStopsAllUpdatesForGood) {
  Rig rig(config());
  ASSERT_TRUE(step(rig, 0).applied);
  set(rig, "frozen", [](uint64_t, float) { return std::numeric_limits<float>::quiet_NaN(); });
  const auto before = rig.state();
  StepResult r = step(rig, 1);
  EXPECT_FALSE(r.applied);
  EXPECT_TRUE(r.nonfinite_loss);
  EXPECT_EQ(r.nonfinite_weight, UINT32_MAX);
  EXPECT_EQ(r.nonfinite_grad, param(rig, "emb")) << "the first in registration order";
  EXPECT_TRUE(rig.state() == before);
  // Later losses are finite again, and still nothing moves.
  set(rig, "frozen", [](uint64_t, float w) { return w; });
  const auto mended = rig.state();
  for (uint64_t s = 2; s < 5; ++s) {
    r = step(rig, s);
    EXPECT_FALSE(r.applied) << s;
    EXPECT_TRUE(std::isfinite(r.loss));
    EXPECT_TRUE(r.nonfinite_loss);
  }
  EXPECT_TRUE(rig.state() == mended);
}

TEST_P(NonFinite, GradientIsNamedAndNotApplied) {
  for (uint32_t layer = 0; layer < 3; ++layer) {
    Rig rig(config());
    make_gradient_overflow(rig, layer);
    const ParamId bad = param(rig, "h." + std::to_string(layer) + ".w");
    const auto before = rig.state();
    const auto embedding = rig.read(0, Plane::weight), weight = rig.read(bad, Plane::weight);
    StepResult r = step(rig, 0);
    ASSERT_TRUE(std::isfinite(r.loss));
    EXPECT_FALSE(r.nonfinite_loss);
    EXPECT_EQ(r.nonfinite_grad, bad);
    EXPECT_FALSE(r.applied);
    EXPECT_FALSE(std::isfinite(r.grad_norm));
    EXPECT_TRUE(rig.read(bad, Plane::weight) == weight);
    if (rig.plans.config.clip > 0) {
      EXPECT_TRUE(rig.state() == before);
    } else {
      // Without a step-wide value each chunk decides for itself, within this one step.
      EXPECT_TRUE(rig.read(0, Plane::weight) != embedding);
    }
    const auto after = rig.state();
    for (uint64_t s = 1; s < 3; ++s) {
      r = step(rig, s);
      EXPECT_FALSE(r.applied);
      EXPECT_EQ(r.nonfinite_grad, bad) << "the first one found stays named";
    }
    EXPECT_TRUE(rig.state() == after);
  }
}

TEST_P(NonFinite, OneBadMicroBatchIsEnough) {
  Config c = config();
  c.accum = 3;
  Rig rig(c);
  set(rig, "emb", [](uint64_t e, float w) {
    return e / kWidth == 99 ? std::numeric_limits<float>::infinity() : w;
  });
  const auto before = rig.state();
  rig.fill_batch(0);
  for (int32_t& t : rig.plans.model.targets[0]) t = 1;
  for (int32_t& t : rig.plans.model.tokens[0]) t = 2;
  rig.plans.model.targets[0][8] = 99;  // in the second micro-batch alone
  rig.run(0, rig.params_of(0));
  rig.engine->flush();
  const StepResult r = rig.engine->result(0);
  EXPECT_TRUE(r.nonfinite_loss);
  EXPECT_FALSE(r.applied);
  EXPECT_TRUE(rig.state() == before);
}

TEST_P(NonFinite, WeightsThatOverflowAreReported) {
  Config c = config();
  c.lr = 1e300;
  Rig rig(c);
  const StepResult r = step(rig, 0);
  EXPECT_TRUE(r.applied);
  EXPECT_EQ(r.nonfinite_weight, 0u) << "the first tensor";
  EXPECT_FALSE(step(rig, 1).applied) << "and show up in the next loss";
}

INSTANTIATE_TEST_SUITE_P(All, NonFinite,
                         ::testing::Combine(::testing::ValuesIn(every_policy()),
                                            ::testing::Values(0.0, 0.5)),
                         [](const ::testing::TestParamInfo<Parameter>& info) {
                           const std::string policy = std::get<0>(info.param);
                           return policy.substr(0, policy.find(':')) +
                                  (std::get<1>(info.param) > 0 ? "_clip" : "");
                         });

}  // namespace
}  // namespace strata::toy
