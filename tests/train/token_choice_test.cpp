#include "train/token_choice.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

const std::vector<float> kLogits = {0.5f, 2.0f, -1.0f, 2.0f, 1.0f};

/// How often each token is chosen over many positions.
std::map<int32_t, double> shares(const TokenChoice& choice,
                                 const std::vector<float>& logits = kLogits) {
  constexpr uint64_t kDraws = 40000;
  std::map<int32_t, double> out;
  for (uint64_t p = 0; p < kDraws; ++p) out[choose_token(logits, choice, p)] += 1.0 / kDraws;
  return out;
}

TEST(TokenChoice, WithoutTemperatureTheLikeliestAndLowestIdIsTaken) {
  for (uint64_t p = 0; p < 100; ++p) {
    EXPECT_EQ(choose_token(kLogits, {0.0, 0, p}, p), 1);
    EXPECT_EQ(choose_token(kLogits, {0.0, 4, p}, p), 1);
  }
  EXPECT_EQ(choose_token(std::vector<float>(7, -3.0f), {0.0, 0, 1}, 0), 0);
}

TEST(TokenChoice, OneOfOneIsTheLikeliest) {
  for (uint64_t p = 0; p < 200; ++p) {
    EXPECT_EQ(choose_token(kLogits, {50.0, 1, 9}, p), choose_token(kLogits, {0.0, 0, 9}, p));
  }
}

TEST(TokenChoice, TokensShareAsTheSoftmaxSays) {
  for (const double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    for (const float x : kLogits) sum += std::exp(x / temperature);
    const auto seen = shares({temperature, 0, 3});
    for (size_t i = 0; i < kLogits.size(); ++i) {
      const auto it = seen.find(static_cast<int32_t>(i));
      EXPECT_NEAR(it == seen.end() ? 0.0 : it->second, std::exp(kLogits[i] / temperature) / sum,
                  0.01)
          << "token " << i << " at temperature " << temperature;
    }
  }
}

TEST(TokenChoice, OnlyTheLikeliestFewAreChosen) {
  const auto two = shares({1.0, 2, 3});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(1), 0.5, 0.01);
  EXPECT_NEAR(two.at(3), 0.5, 0.01);
  const auto three = shares({1e6, 3, 3});
  ASSERT_EQ(three.size(), 3u);
  EXPECT_NEAR(three.at(4), 1.0 / 3, 0.01) << "as likely as the others when hot";
  EXPECT_EQ(shares({1.0, 100, 3}), shares({1.0, 0, 3})) << "more than there are: all";
  // The cut goes through equal ones: the lower ids stay.
  EXPECT_EQ(shares({1.0, 2, 3}, std::vector<float>(6, 1.0f)).rbegin()->first, 1);
}

TEST(TokenChoice, ExtremesOfTemperatureAreGreedyAndUniform) {
  const std::vector<float> logits = {1.0f, 2.0f, 1.9999f, -3e38f, 3e-38f};
  for (uint64_t p = 0; p < 500; ++p) EXPECT_EQ(choose_token(logits, {1e-300, 0, 2}, p), 1);
  const auto hot = shares({1e300, 0, 2}, logits);
  ASSERT_EQ(hot.size(), logits.size());
  for (const auto& [id, share] : hot) EXPECT_NEAR(share, 0.2, 0.01) << id;
}

TEST(TokenChoice, SeedAndPositionDecide) {
  const std::vector<float> even(1000, 0.0f);
  const auto draw = [&](uint64_t seed) {
    std::vector<int32_t> out;
    for (uint64_t p = 0; p < 50; ++p) out.push_back(choose_token(even, {1.0, 0, seed}, p));
    return out;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
  const auto a = draw(1);
  EXPECT_GT(std::set<int32_t>(a.begin(), a.end()).size(), 40u) << "positions draw anew";
}

TEST(TokenChoice, WhatMakesNoSenseIsRefused) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double t : {-1.0, inf, std::nan("")}) {
    EXPECT_THROW(choose_token(kLogits, {t, 0, 1}, 0), ConfigError) << t;
  }
  std::vector<float> broken = kLogits;
  broken[2] = std::nanf("");
  for (const double t : {0.0, 1.0}) {
    try {
      choose_token(broken, {t, 0, 1}, 17);
      FAIL() << "accepted";
    } catch (const NonFinite& e) {
      EXPECT_NE(std::string(e.what()).find("token 2"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("17"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace strata
