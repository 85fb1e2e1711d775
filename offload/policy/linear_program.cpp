#include "offload/policy/linear_program.hpp"

#include <Clp_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "runtime/errors.hpp"

namespace strata {
namespace {

/// What is nearer to a whole number is whole.
constexpr double kWhole = 1e-6;

double distance_to_whole(double x) { return std::abs(x - std::round(x)); }

}  // namespace

uint32_t LinearProgram::add_variable(double cost, double lower, double upper) {
  cost_.push_back(cost);
  lower_.push_back(lower);
  upper_.push_back(upper);
  columns_.emplace_back();
  return variables() - 1;
}

uint32_t LinearProgram::add_row(double lower, double upper) {
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  return rows() - 1;
}

void LinearProgram::add(uint32_t row, uint32_t variable, double coefficient) {
  columns_.at(variable).push_back({row, coefficient});
}

void LinearProgram::set_bounds(uint32_t variable, double lower, double upper) {
  lower_.at(variable) = lower;
  upper_.at(variable) = upper;
}

void LinearProgram::set_row_bounds(uint32_t row, double lower, double upper) {
  row_lower_.at(row) = lower;
  row_upper_.at(row) = upper;
}

/// A program inside the library, kept between solves that differ in the variables' bounds alone: it
/// goes on from the last solution.
class LinearSolver {
 public:
  explicit LinearSolver(const LinearProgram& p) : model_(Clp_newModel(), &Clp_deleteModel) {
    std::vector<CoinBigIndex> start = {0};
    std::vector<int> row;
    std::vector<double> coefficient;
    for (auto column : p.columns_) {
      std::stable_sort(column.begin(), column.end(),
                       [](const auto& a, const auto& b) { return a.row < b.row; });
      for (const LinearProgram::Entry& e : column) {
        if (row.size() > static_cast<size_t>(start.back()) &&
            row.back() == static_cast<int>(e.row)) {
          coefficient.back() += e.coefficient;
          continue;
        }
        row.push_back(static_cast<int>(e.row));
        coefficient.push_back(e.coefficient);
      }
      start.push_back(static_cast<CoinBigIndex>(row.size()));
    }
    // The library's tolerances are absolute, and seconds a unit are tiny.
    double largest = 0;
    for (const double c : p.cost_) largest = std::max(largest, std::abs(c));
    scale_ = largest > 0 ? 1 / largest : 1;
    std::vector<double> cost;
    for (const double c : p.cost_) cost.push_back(c * scale_);
    Clp_setLogLevel(model_.get(), 0);
    Clp_loadProblem(model_.get(), static_cast<int>(p.variables()), static_cast<int>(p.rows()),
                    start.data(), row.data(), coefficient.data(), p.lower_.data(), p.upper_.data(),
                    cost.data(), p.row_lower_.data(), p.row_upper_.data());
  }

  LinearSolution solve(const LinearProgram& p) {
    Clp_Simplex* m = model_.get();
    if (solved_) {
      Clp_chgColumnLower(m, p.lower_.data());
      Clp_chgColumnUpper(m, p.upper_.data());
      Clp_dual(m, 0);
    } else {
      // This step of its presolve leaks memory (CoinUtils 2.11).
      const std::unique_ptr<Clp_Solve, decltype(&ClpSolve_delete)> how(ClpSolve_new(),
                                                                       &ClpSolve_delete);
      ClpSolve_setDoImpliedFree(how.get(), 0);
      Clp_initialSolveWithOptions(m, how.get());
      solved_ = true;
    }
    LinearSolution out;
    if (Clp_isProvenPrimalInfeasible(m) != 0) return out;
    if (Clp_isProvenOptimal(m) == 0) {
      throw StateError("a linear program of " + std::to_string(p.variables()) + " variables and " +
                       std::to_string(p.rows()) + " rows was not solved (status " +
                       std::to_string(Clp_status(m)) + ")");
    }
    out.feasible = true;
    out.value = Clp_getObjValue(m) / scale_ + p.constant_;
    const double* x = Clp_getColSolution(m);
    out.x.assign(x, x + p.variables());
    const auto prices = [&](const double* scaled, uint32_t n) {
      std::vector<double> all(scaled, scaled + n);
      for (double& price : all) price /= scale_;
      return all;
    };
    out.variable_price = prices(Clp_getReducedCost(m), p.variables());
    out.row_price = prices(Clp_getRowPrice(m), p.rows());
    return out;
  }

 private:
  std::unique_ptr<Clp_Simplex, decltype(&Clp_deleteModel)> model_;
  double scale_ = 1;
  bool solved_ = false;
};

LinearSolution solve(const LinearProgram& p) { return LinearSolver(p).solve(p); }

LinearSolution solve_with_whole(LinearProgram p, uint32_t v) {
  LinearSolver solver(p);
  LinearSolution relaxed = solver.solve(p);
  if (!relaxed.feasible || distance_to_whole(relaxed.x[v]) <= kWhole) return relaxed;
  const double lower = p.lower(v), upper = p.upper(v);
  p.set_bounds(v, lower, std::floor(relaxed.x[v]));
  LinearSolution below = solver.solve(p);
  p.set_bounds(v, std::ceil(relaxed.x[v]), upper);
  LinearSolution above = solver.solve(p);
  return below.feasible && (!above.feasible || below.value <= above.value) ? below : above;
}

LinearSolution dive(LinearProgram p, const std::vector<uint32_t>& integers, uint32_t most_solves) {
  LinearSolver solver(p);
  LinearSolution s = solver.solve(p);
  for (uint32_t solves = 1; s.feasible;) {
    std::vector<uint32_t> open;
    for (const uint32_t v : integers) {
      if (distance_to_whole(s.x[v]) > kWhole) {
        open.push_back(v);
      } else if (s.x[v] > 0.5) {
        p.set_bounds(v, 1, 1);
      }
    }
    if (open.empty()) return s;
    std::stable_sort(open.begin(), open.end(),
                     [&](uint32_t a, uint32_t b) { return s.x[a] > s.x[b] + kWhole; });
    for (size_t n = (open.size() + 2) / 3;; n /= 4) {
      LinearProgram tried = p;
      for (size_t i = 0; i < n; ++i) tried.set_bounds(open[i], 1, 1);
      if (n == 0) tried.set_bounds(open[0], 0, 0);  // this one cannot be
      LinearSolution next = solver.solve(tried);
      if (++solves > most_solves) return {};
      if (!next.feasible && n != 0) continue;
      p = std::move(tried);
      s = std::move(next);
      break;
    }
  }
  return s;
}

LinearSolution branch_and_bound(const LinearProgram& p, const std::vector<uint32_t>& integers,
                                const LinearSolution& start, uint32_t most_solves) {
  struct Fixed {
    uint32_t variable;
    double value;
  };
  LinearSolver solver(p);
  LinearSolution best = start;
  std::vector<std::vector<Fixed>> open = {{}};
  for (uint32_t solves = 0; !open.empty() && solves < most_solves; ++solves) {
    const std::vector<Fixed> node = std::move(open.back());
    open.pop_back();
    LinearProgram program = p;
    for (const Fixed& f : node) program.set_bounds(f.variable, f.value, f.value);
    LinearSolution s = solver.solve(program);
    const double margin = best.feasible ? 1e-9 * std::max(1.0, std::abs(best.value)) : 0;
    if (!s.feasible || (best.feasible && s.value >= best.value - margin)) continue;
    uint32_t branch = UINT32_MAX;
    for (const uint32_t v : integers) {
      const double d = distance_to_whole(s.x[v]);
      if (d > kWhole && (branch == UINT32_MAX || d > distance_to_whole(s.x[branch]))) branch = v;
    }
    if (branch == UINT32_MAX) {
      best = std::move(s);
      continue;
    }
    // The nearer whole number is tried first.
    const double first = std::round(s.x[branch]);
    for (const double value : {1 - first, first}) {
      open.push_back(node);
      open.back().push_back({branch, value});
    }
  }
  return best;
}

}  // namespace strata
