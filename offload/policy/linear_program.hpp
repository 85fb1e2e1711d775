// Linear programs, solved by COIN-OR Clp behind this one file. Pure: the same program gives the
// same solution, and no clock stops it.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace strata {

/// Minimise cost * x, with lower <= x <= upper, and for each row sum(coefficient * x) between its
/// two bounds. Variables and rows are numbered in the order they are added.
class LinearProgram {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  uint32_t add_variable(double cost, double lower = 0, double upper = 1);
  /// A row without coefficients yet.
  uint32_t add_row(double lower, double upper);
  /// Adds to the coefficient of a variable in a row.
  void add(uint32_t row, uint32_t variable, double coefficient);

  uint32_t variables() const noexcept { return static_cast<uint32_t>(cost_.size()); }
  uint32_t rows() const noexcept { return static_cast<uint32_t>(row_lower_.size()); }
  void set_bounds(uint32_t variable, double lower, double upper);
  double lower(uint32_t variable) const { return lower_.at(variable); }
  double upper(uint32_t variable) const { return upper_.at(variable); }
  double cost(uint32_t variable) const { return cost_.at(variable); }
  void set_cost(uint32_t variable, double cost) { cost_.at(variable) = cost; }
  void set_row_bounds(uint32_t row, double lower, double upper);
  /// Part of the value whatever x is.
  void add_constant(double cost) { constant_ += cost; }
  double constant() const noexcept { return constant_; }

 private:
  friend class LinearSolver;
  struct Entry {
    uint32_t row;
    double coefficient;
  };
  double constant_ = 0;
  std::vector<double> cost_, lower_, upper_, row_lower_, row_upper_;
  std::vector<std::vector<Entry>> columns_;
};

struct LinearSolution {
  /// False: no x satisfies the rows.
  bool feasible = false;
  double value = 0;
  std::vector<double> x;
  /// What the value changes by for each unit by which a variable's, or a row's, binding bound
  /// grows.
  std::vector<double> variable_price, row_price;
};

/// Throws StateError when the program has no lower bound or the library gives up.
LinearSolution solve(const LinearProgram&);

/// The same where one variable, with bounds of any size, must be whole.
LinearSolution solve_with_whole(LinearProgram, uint32_t variable);

/// Rounds the relaxed solution to one where `integers`, variables between 0 and 1, are whole: fixes
/// those that are, rounds the largest third of the rest up, solves again. Not the optimum, but near
/// it where few are fractional. Not feasible: none was found, within `most_solves` linear
/// programs.
LinearSolution dive(LinearProgram, const std::vector<uint32_t>& integers,
                    uint32_t most_solves = UINT32_MAX);

/// The best solution with whole `integers`, by branching on fractional ones, within `most_solves`
/// linear programs; the best one found, `start` included, when that is not enough.
LinearSolution branch_and_bound(const LinearProgram&, const std::vector<uint32_t>& integers,
                                const LinearSolution& start, uint32_t most_solves);

}  // namespace strata
