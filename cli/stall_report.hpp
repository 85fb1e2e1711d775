// What a run waited for, and what would help.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "offload/advice.hpp"
#include "offload/timeline.hpp"
#include "train/metrics.hpp"
#include "train/session.hpp"

namespace strata {

/// Adds up the steps of a run but the first, which warms caches up. What streams worked and moved
/// is left out of steps that an evaluation follows, as the bytes of both are counted together.
class StepMeter {
 public:
  void add(const StepMetrics&);
  uint64_t steps() const noexcept { return steps_; }
  /// Not to be asked without steps.
  MeasuredStep mean() const;

 private:
  uint64_t seen_ = 0, steps_ = 0, moving_steps_ = 0;
  MeasuredStep sum_;
};

/// One that compute waited for, with seconds of a step.
struct StalledChunk {
  ChunkId chunk;
  std::string tensors;
  double seconds;
};

/// Advice in words, and the figures in it. All of it is predicted.
struct Advice {
  std::string kind;  // device_memory, host_memory, tokens or none
  std::string text;
  uint64_t more_bytes = 0;
  double step_seconds_before = 0, step_seconds_after = 0;
};

struct StallReport {
  uint64_t steps = 0;
  MeasuredStep step;
  std::vector<StalledChunk> chunks;  // those with most
  /// What predictions are made from: "measured in this run".
  std::string rates;
  /// The same step, predicted from these rates; 0: nothing was predicted.
  double predicted_seconds = 0;
  uint64_t tokens = 0;  // of a step
  /// Tokens of a step at which compute just hides transfers; 0: not known.
  double critical_tokens = 0;
  std::vector<Advice> advice;
};

/// Chunks that training steps waited for.
StallReport stall_report(const StepMeter&, const Workload&, const Timeline&, uint64_t steps);
/// Simulates other budgets and batches, at most twelve times. Where less than 2 % of the step is
/// stalled there is nothing to gain, and it simulates only if it `must`.
void add_advice(StallReport&, const Workload&, const PlanResult&, const Budgets&, bool must);

/// For people, one topic a line.
std::string stall_text(const StallReport&);
nlohmann::ordered_json stall_json(const StallReport&);

}  // namespace strata
