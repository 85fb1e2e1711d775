// From flags to what is planned and run.
#pragma once
#include "cli/options.hpp"
#include "train/data.hpp"
#include "train/trainer.hpp"

namespace strata {

/// Threads given, or every core this process may use.
uint32_t resolve_threads(uint32_t given);

/// The option parser saw to it that a model was named.
SessionConfig session_config(const RunArgs&);
/// With the order of micro-batches that was asked for or is planned under the budgets.
SessionConfig session_config(const RunArgs&, const Budgets&);
LrSchedule schedule_of(const RunArgs&);

/// Bytes of each tier. The device defaults to 80 % of what is available, the host to nothing; both
/// are one memory here, so together they may not exceed what is available. What the process and its
/// libraries take beside the arenas is measured and charged to the host, or to the device where the
/// host has nothing. `elsewhere`: for planning only, on a machine that may have more, and NVMe
/// without directories.
Budgets resolve_budgets(const BudgetArgs&, bool elsewhere = false);

/// Of what the process takes beside the arenas: so much more.
void charge_external(Budgets&, size_t bytes);

/// Opens `--data`, which the option parser saw to it is there. Throws ConfigError.
std::unique_ptr<TokenSource> open_data(const RunArgs&, uint32_t seq, uint64_t vocabulary);

/// The model's vocabulary.
uint32_t vocabulary_of(const std::string& model);

}  // namespace strata
