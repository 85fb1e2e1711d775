// What a run's folder says of the run: `run.json`.
#pragma once
#include <string>

#include "cli/options.hpp"
#include "train/session.hpp"

namespace strata {

/// How a run was set up, so that its plan can be made again.
struct RunFile {
  GivenFlags flags;
  Budgets budgets;
  uint32_t threads = 1;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
};

/// Files of a run's folder.
std::string run_file_in(const std::string& run);
std::string metrics_in(const std::string& run);
std::string stalls_in(const std::string& run);
std::string trace_in(const std::string& run);

/// JSON.
std::string run_file_text(const RunFile&);
/// Throws ConfigError naming `where` and what is wrong.
RunFile parse_run_file(const std::string& text, const std::string& where);

/// The workload of a run.
SessionConfig session_config(const RunFile&);

}  // namespace strata
