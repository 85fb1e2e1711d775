// Flags of `strata bench step`, `bench nvme` and `bench adam`.
#pragma once
#include "cli/flags.hpp"
#include "cli/options.hpp"

namespace strata {

void add_bench_step(CLI::App&, BenchStepArgs&);
void add_bench_nvme(CLI::App&, BenchNvmeArgs&);
void add_bench_adam(CLI::App&, BenchAdamArgs&);

}  // namespace strata
