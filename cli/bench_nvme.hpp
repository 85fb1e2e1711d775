// `strata bench nvme DIR`: the NVMe tier's transfers beside fio's on the same file.
#pragma once
#include "cli/options.hpp"

namespace strata {

/// Measures and prints; returns the exit code. Throws ConfigError and IoError.
int run_bench_nvme(const BenchNvmeArgs&);

}  // namespace strata
