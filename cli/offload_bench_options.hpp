// Flags of `strata bench curve` and `strata bench policies`.
#pragma once
#include "cli/flags.hpp"
#include "cli/options.hpp"

namespace strata {

void add_bench_curve(CLI::App&, BenchCurveArgs&);
void add_bench_policies(CLI::App&, BenchPoliciesArgs&);
/// What concerns several flags, and what is missing. Throws ConfigError.
void finish_bench_curve(const BenchCurveArgs&);
void finish_bench_policies(const BenchPoliciesArgs&);

}  // namespace strata
