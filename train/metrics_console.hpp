// The progress lines of a training run.
#pragma once
#include <cstdint>
#include <string>

#include "train/metrics.hpp"

namespace strata {

/// Aligned lines for people, the same on a terminal and in a file: no colours, no carriage returns.
/// The remaining time is the remaining steps times an exponential mean of step times, without the
/// first step, which also warms caches up.
class ConsoleProgress {
 public:
  explicit ConsoleProgress(uint64_t steps) : steps_(steps) {}

  /// Column names, without a newline.
  std::string header() const;

  /// Takes the step into the time estimate; call for every step, also those not printed.
  void record(const StepMetrics& metrics);

  /// The line of a step, without a newline.
  std::string line(const StepMetrics& metrics) const;

 private:
  uint64_t steps_;
  uint64_t recorded_ = 0;
  double mean_ms_ = 0;
};

/// "45s", "3m20s", "2h05m", "4d03h".
std::string format_duration(double seconds);

}  // namespace strata
