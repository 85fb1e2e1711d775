#include "tests/golden/golden.hpp"

#include <gtest/gtest.h>

namespace strata {
namespace {

TEST(Golden, FileLoadsAndFormulasReproduceTheWeights) {
  const auto cases = golden::load();  // throws when a weight differs
  ASSERT_EQ(cases.size(), 2u);
  for (const auto& c : cases) {
    EXPECT_EQ(c.gradients.size(), 4u + 12u * c.layers);
    EXPECT_EQ(c.token_losses.size(), size_t{c.batch} * c.seq);
    EXPECT_EQ(c.runs.size(), 6u);
    double sum = 0;
    for (double x : c.token_losses) sum += x;
    EXPECT_NEAR(sum / (c.batch * c.seq), c.loss, 1e-7);
    double squares = 0;
    for (const auto& g : c.gradients) squares += g.norm * g.norm;
    EXPECT_NEAR(std::sqrt(squares), c.gradient_norm, 1e-7);
    EXPECT_NEAR(c.runs[0].losses[0], c.loss, 1e-8);
  }
}

TEST(Golden, TargetsAreTheInputsOnePositionLater) {
  for (const auto& c : golden::load()) {
    for (uint32_t step = 0; step < 2; ++step) {
      const auto inputs = c.tokens(step);
      const auto targets = c.targets(step);
      ASSERT_EQ(inputs.size(), size_t{c.batch} * c.seq);
      for (size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_LT(static_cast<uint32_t>(inputs[i]), c.vocabulary);
        if ((i + 1) % c.seq == 0) continue;
        ASSERT_EQ(targets[i], inputs[i + 1]);
      }
    }
  }
}

TEST(Golden, ErrorFindsAWrongNormAPermutationAndAWrongElement) {
  golden::Tensor t{"x", {4}, 0, 0, 0, {0, 1, 2, 3}, {1, 2, 3, 4}};
  t.norm = std::sqrt(30.0);
  for (uint64_t i = 0; i < 4; ++i) t.probe += t.values[i] * golden::unit("x.probe", i);
  const auto error = [&t](std::vector<float> actual) { return t.error(actual); };
  EXPECT_LT(error({1, 2, 3, 4}), 1e-7);
  EXPECT_GT(error({1, 2, 3, 4.01f}), 1e-3);
  EXPECT_EQ(error({1, 2, 3}), INFINITY);
  EXPECT_EQ(error({1, 2, 3, NAN}), INFINITY);
  t.values.clear();
  EXPECT_GT(error({2, 1, 3, 4}), 1e-3);
}

}  // namespace
}  // namespace strata
