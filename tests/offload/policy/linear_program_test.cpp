#include "offload/policy/linear_program.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/errors.hpp"

namespace strata {
namespace {

/// A knapsack: take what is worth most within the weight.
struct Knapsack {
  LinearProgram program;
  std::vector<uint32_t> items;
  std::vector<double> worth, weight;
  double room;

  Knapsack(std::mt19937_64& random, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      worth.push_back(1 + static_cast<double>(random() % 100));
      weight.push_back(1 + static_cast<double>(random() % 30));
      sum += weight.back();
    }
    room = std::floor(sum * 0.4);
    const uint32_t row = program.add_row(-LinearProgram::kInfinity, room);
    for (size_t i = 0; i < n; ++i) {
      items.push_back(program.add_variable(-worth[i]));
      program.add(row, items[i], weight[i]);
    }
  }
  double best() const {
    double best = 0;
    for (size_t set = 0; set < size_t{1} << items.size(); ++set) {
      double value = 0, used = 0;
      for (size_t i = 0; i < items.size(); ++i) {
        value += (set >> i & 1) != 0 ? worth[i] : 0;
        used += (set >> i & 1) != 0 ? weight[i] : 0;
      }
      if (used <= room) best = std::max(best, value);
    }
    return -best;
  }
  void expect_whole(const LinearSolution& s) const {
    double used = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_NEAR(s.x[items[i]], std::round(s.x[items[i]]), 1e-6);
      used += weight[i] * s.x[items[i]];
    }
    EXPECT_LE(used, room + 1e-6);
  }
};

TEST(LinearProgram, FindsTheOptimum) {
  // Least -3x - 2y with x + y <= 4, x + 3y <= 6, x <= 3: x = 3, y = 1.
  LinearProgram p;
  const uint32_t x = p.add_variable(-3, 0, 3), y = p.add_variable(-2, 0, 100);
  const uint32_t a = p.add_row(-LinearProgram::kInfinity, 4);
  const uint32_t b = p.add_row(-LinearProgram::kInfinity, 6);
  p.add(a, x, 1);
  p.add(b, y, 2);
  p.add(b, x, 1);
  p.add(a, y, 1);
  p.add(b, y, 1);  // adds up to 3
  p.add_constant(100);
  const LinearSolution s = solve(p);
  ASSERT_TRUE(s.feasible);
  EXPECT_NEAR(s.value, 100 - 11, 1e-9);
  EXPECT_NEAR(s.x[x], 3, 1e-9);
  EXPECT_NEAR(s.x[y], 1, 1e-9);
}

TEST(LinearProgram, TinyCostsCountAsMuchAsLargeOnes) {
  for (const double unit : {1e-12, 1.0, 1e12}) {
    LinearProgram p;
    const uint32_t x = p.add_variable(-unit), y = p.add_variable(-2 * unit);
    const uint32_t row = p.add_row(-LinearProgram::kInfinity, 1);
    p.add(row, x, 1);
    p.add(row, y, 1);
    const LinearSolution s = solve(p);
    EXPECT_NEAR(s.value / unit, -2, 1e-6) << unit;
  }
}

TEST(LinearProgram, SaysWhatHasNoSolution) {
  LinearProgram p;
  const uint32_t x = p.add_variable(1);
  p.add(p.add_row(2, 3), x, 1);
  EXPECT_FALSE(solve(p).feasible);
  EXPECT_FALSE(dive(p, {x}).feasible);
  EXPECT_FALSE(branch_and_bound(p, {x}, {}, 10).feasible);
  LinearProgram unbounded;
  unbounded.add_variable(-1, 0, LinearProgram::kInfinity);
  EXPECT_THROW(solve(unbounded), StateError);
}

TEST(LinearProgram, BranchAndBoundEqualsBruteForceAndDiveIsNearIt) {
  std::mt19937_64 random(5);
  double ratio = 0;
  for (int i = 0; i < 40; ++i) {
    const Knapsack k(random, 12);
    const double best = k.best();
    const LinearSolution dived = dive(k.program, k.items);
    ASSERT_TRUE(dived.feasible);
    k.expect_whole(dived);
    EXPECT_GE(dived.value, best - 1e-6);
    EXPECT_LE(solve(k.program).value, best + 1e-6) << "the relaxed value is a bound";
    const LinearSolution exact = branch_and_bound(k.program, k.items, dived, 10000);
    k.expect_whole(exact);
    EXPECT_NEAR(exact.value, best, 1e-6);
    ratio += dived.value / best / 40;
  }
  EXPECT_GT(ratio, 0.9);
}

TEST(LinearProgram, BranchAndBoundKeepsTheStartWhenItMayNotSolve) {
  std::mt19937_64 random(6);
  const Knapsack k(random, 12);
  const LinearSolution dived = dive(k.program, k.items);
  EXPECT_EQ(branch_and_bound(k.program, k.items, dived, 0).value, dived.value);
}

}  // namespace
}  // namespace strata
