// Flags of `strata sim`, and of `strata report`.
#pragma once
#include "cli/flags.hpp"
#include "cli/options.hpp"

namespace strata {

void add_sim(CLI::App&, SimArgs&);
/// What concerns several flags, and what is missing. Throws ConfigError.
void finish_sim(const SimArgs&);
void add_report(CLI::App&, ReportArgs&);

}  // namespace strata
