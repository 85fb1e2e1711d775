// `strata bench curve`: steps within budgets against their roofline, from few tokens, where
// transfers take longest, to many.
#pragma once
#include "cli/curve_report.hpp"

namespace strata {

/// Measures and prints; returns the exit code. Throws DoesNotFit when no policy fits, and what
/// sessions throw.
int run_bench_curve(const BenchCurveArgs&);

/// Seconds of a step's kernels, as a line in the batch.
struct KernelLine {
  double fixed = 0;  ///< the optimizer's among them
  double per_sequence = 0;

  /// The batch at which kernels take nearest to so many seconds; at least 1.
  uint32_t batch_for(double seconds) const noexcept;
};

}  // namespace strata
