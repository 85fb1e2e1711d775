// A plan for people and for programs.
#pragma once
#include <string>
#include <vector>

#include "train/session.hpp"

namespace strata {

/// A change that was planned itself, and fits.
struct Fix {
  std::string flag;    // what to write, e.g. "--recompute block"
  std::string effect;  // what it costs or needs
  std::array<size_t, kTiers> need{};
  double step_seconds = 0;
};

/// Changes that make the workload fit, best first: the same budgets with other settings by
/// predicted step time, then the budgets the given settings need.
std::vector<Fix> find_fixes(const Workload&, const PlanResult&, const Budgets&);

/// The table per tier and category, the verdict, and the prediction.
std::string plan_table(const Workload&, const PlanResult&);
std::string fixes_text(const PlanResult&, const std::vector<Fix>&);
std::string plan_json(const PlanResult&, const std::vector<Fix>&);

}  // namespace strata
