// `strata bench step`: resident training steps against the library's own matrix products.
#pragma once
#include <span>
#include <vector>

#include "cli/bench_serve.hpp"  // worker_main
#include "cli/bench_worker.hpp"
#include "cli/options.hpp"

namespace strata {

/// Measures and prints; returns the exit code. The step and each way to multiply matrices run in
/// processes of their own, which take turns and sleep in between; `main` must call `worker_main`.
/// Throws ConfigError, DoesNotFit, OutOfMemory, and IoError when a worker died.
int run_bench_step(const BenchStepArgs&);

/// One round in which every arm measured for a few seconds, in turns.
struct BenchPair {
  BenchSample step, team, pool;
};

struct BenchSummary {
  double flops_per_second = 0;       ///< of the step, median
  double team_flops_per_second = 0;  ///< median, weights packed
  double pool_flops_per_second = 0;  ///< median, weights packed
  bool team_is_faster = false;
  double gemm_flops_per_second = 0;  ///< the faster of the two
  /// Step over the faster arm, for each pair, and their median.
  std::vector<double> fractions;
  double fraction = 0;
  /// The same against products that find all their operands packed, not the weights alone.
  double packed_gemm_flops_per_second = 0, packed_fraction = 0;
  /// Most CPU time that others took in any sample, as a share of all processors.
  double others_share = 0;
  /// CPUs kept busy, on average, by the worker that slept worst while others measured.
  double idle_cpus = 0;
};

/// `pairs` is not empty.
BenchSummary summarize(std::span<const BenchPair> pairs);

/// The mean of the middle two when there is no middle one; `values` is not empty.
double median(std::vector<double> values);

}  // namespace strata
