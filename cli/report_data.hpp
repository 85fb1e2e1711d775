// What a report shows of a run, gathered from its folder.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "cli/run_file.hpp"

namespace strata {

/// Columns of `metrics.jsonl`, of at most so many points: means over equally many steps each.
/// `validation`: [step, loss]. Lines that are no JSON object are left out. Throws ConfigError
/// naming `where` when none is left.
nlohmann::ordered_json metric_columns(const std::string& lines, const std::string& where,
                                      size_t most_points = 1000);

/// Mean time, stalls and bytes of a step, as `stalls.json` has them, of a plan's prediction.
nlohmann::ordered_json predicted_step(const Prediction&);

/// All that the page shows. Plans the run again, and simulates a step where none was recorded.
/// Throws ConfigError, naming what of the folder is missing or damaged.
nlohmann::ordered_json report_data(const ReportArgs&);

}  // namespace strata
