// `strata bench adam`: the optimizer's update against what memory gives for the same traffic.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "cli/options.hpp"
#include "runtime/kernels/stream_probe.hpp"

namespace strata {

/// Measures and prints; returns the exit code. Throws DoesNotFit when the arrays would not.
int run_bench_adam(const BenchAdamArgs&);

/// Seconds of one round in which every arm went over all arrays as often as the others.
struct AdamPair {
  double adamw = 0;
  std::array<double, kernels::kStreamStores> stream{};
};

struct AdamSummary {
  /// Seconds of the median round.
  AdamPair median;
  /// The faster of temporal and non-temporal stores overall.
  kernels::StreamStores faster = kernels::StreamStores::temporal;
  /// Speed of AdamW over that arm's, for each pair, and their median.
  std::vector<double> fractions;
  double fraction = 0;
  /// The same against the arm that prefetches as AdamW does, which STREAM does not.
  double prefetched_fraction = 0;
};

/// `pairs` is not empty.
AdamSummary summarize(std::span<const AdamPair> pairs);

}  // namespace strata
