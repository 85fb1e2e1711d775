// What `strata sim` found, for people, for spreadsheets and for programs.
#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "offload/bound.hpp"
#include "offload/planner.hpp"
#include "offload/roofline.hpp"

namespace strata {

/// One combination of a sweep.
struct SimRow {
  std::string policy;
  std::array<size_t, kTiers> budgets{};
  uint64_t tokens = 0;  // of a micro-batch
  uint32_t accum = 1;
  uint32_t steps = 1;  // that means are over
  PlanResult plan;     // without its actions
  Roofline roofline;   // where it fits
  /// Where it fits and was asked for.
  std::optional<Bound> bound;

  /// 0 for a step that takes no time: a trace without any cost.
  double tokens_per_second() const noexcept {
    const double step = plan.prediction.step_seconds;
    return step > 0 ? static_cast<double>(tokens * accum) / step : 0;
  }
  /// Of the step over its roofline.
  double over_roofline() const noexcept {
    return roofline.seconds > 0 ? plan.prediction.step_seconds / roofline.seconds : 1;
  }
};

nlohmann::ordered_json sim_json(const SimRow&);
/// One object: that of the row, or {"runs": [...]} of several.
std::string sim_json(const std::vector<SimRow>&, bool sweep);
/// A header and a line each; the columns are the keys of the JSON objects, joined by `_`.
std::string sim_csv(const std::vector<SimRow>&);
std::string sim_markdown(const std::vector<SimRow>&);
std::string sim_table(const std::vector<SimRow>&);
/// One row in words.
std::string sim_text(const SimRow&);

}  // namespace strata
