// The training loop: batches in, steps issued one ahead, metrics of finished steps out.
#pragma once
#include <array>
#include <functional>
#include <vector>

#include "train/data.hpp"
#include "train/metrics.hpp"
#include "train/schedule.hpp"
#include "train/session.hpp"

namespace strata {

struct TrainerConfig {
  LrSchedule schedule;
  /// Steps between evaluations; 0: only after the last step, and not at all without `evaluates`.
  uint64_t evaluate_every = 0;
  /// Most validation batches an evaluation runs.
  uint64_t evaluate_batches = 20;
};

/// Runs `schedule.steps` steps. Reads a step's metrics after the next one was issued.
class Trainer {
 public:
  using StepFn = std::function<void(const StepMetrics&)>;

  Trainer(const Workload&, Session&, TokenSource&, const TrainerConfig&);

  /// Calls `on_step` for every finished step, in order. Throws NonFinite naming step and tensor.
  void run(const StepFn& on_step);
  /// Mean token loss over validation windows.
  double validation_loss();

 private:
  struct Batch {
    std::vector<int32_t> tokens, targets;
  };

  bool evaluates_after(uint64_t step) const;
  void issue(uint64_t step);
  void report(uint64_t step, uint32_t back, const StepFn& on_step);
  StepMetrics measure(uint64_t step, uint32_t back);
  void check(uint64_t step, const StepResult&) const;

  const Workload& workload_;
  Session& session_;
  TokenSource& data_;
  TrainerConfig config_;
  uint64_t rows_, step_tokens_;
  std::array<Batch, 2> batches_;  // of the two newest steps
  Batch evaluation_;
  /// Counters when the last step was reported.
  struct Mark {
    double time, waited;
    uint64_t h2d_bytes, d2h_bytes;
  } last_{};
};

}  // namespace strata
