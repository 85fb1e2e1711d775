// What a training run says of itself when it ends.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/stall_report.hpp"
#include "train/metrics.hpp"
#include "train/session.hpp"

namespace strata {

/// Collects the steps of one run of the command.
class TrainReport {
 public:
  void add(const StepMetrics&);
  /// The steps are done: what comes now is not theirs.
  void note_peak();
  /// For people. `with_state`: also a hash of the final state, for which all of it is read.
  std::string text(const Workload&, Session&, const Budgets&, bool with_state) const;
  /// One object. `steps`: done in all, earlier runs included. `checkpoint`: empty if none.
  std::string json(const Workload&, const Session&, const Budgets&, uint64_t steps, bool stopped,
                   const std::string& checkpoint, const std::optional<StallReport>&) const;
  const StepMeter& meter() const noexcept { return meter_; }
  /// Of this command.
  uint64_t steps() const noexcept { return steps_; }

 private:
  /// Losses of the last steps, for their mean.
  static constexpr size_t kTail = 50;
  double tail_mean() const;

  StepMeter meter_;
  size_t resident_peak_ = 0;
  std::vector<double> tail_;
  StepMetrics last_;
  std::optional<double> validation_;
  uint64_t steps_ = 0, h2d_ = 0, d2h_ = 0, nvme_read_ = 0, nvme_write_ = 0;
};

}  // namespace strata
