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
  /// Steps that were done before, whose state the session holds.
  uint64_t first_step = 0;
  /// Steps between calls of `save`; 0: only at the end, after the last step or a stop.
  uint64_t save_every = 0;
  /// Called with the number of steps done; the session's state is that after them, and finite.
  std::function<void(uint64_t done)> save;
  /// Asked after each step; true: stop there.
  std::function<bool()> stop;
};

/// Runs steps up to `schedule.steps`. Reads a step's metrics after the next one was issued.
class Trainer {
 public:
  using StepFn = std::function<void(const StepMetrics&)>;

  Trainer(const Workload&, Session&, TokenSource&, const TrainerConfig&);
  /// Waits for steps that are still running: they read this object's batches.
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Calls `on_step` for every finished step, in order. Returns how many steps are done in all.
  /// Throws NonFinite naming step and tensor.
  uint64_t run(const StepFn& on_step);
  /// Mean token loss over validation windows.
  double validation_loss();

 private:
  /// Bytes: to the device, back, read from NVMe, written to it.
  using Moved = std::array<uint64_t, 4>;
  /// The backend's clock, and what each stream's time went to until then.
  struct Clocks {
    double now = 0;
    std::array<StreamTimes, kResources> streams;
    static Clocks of(const Backend&);
  };
  /// A step on its way: what it reads, and what is known of it when it is done.
  struct Batch {
    std::vector<int32_t> tokens, targets;
    Moved moved{};
    Clocks finished;  // written by the compute stream
    Fence written;
  };

  static void stamp(HostContext&, const Backend*, Batch*);
  bool evaluates_after(uint64_t step) const;
  bool saves_after(uint64_t step) const;
  static void check_validation(const StepMetrics&);
  Moved moved();
  static void add(const Moved&, StepMetrics&);
  static void add_times(const Clocks& from, const Clocks& to, StepMetrics&);
  void issue(uint64_t step);
  StepMetrics measure(uint64_t step, uint32_t back);
  void check(uint64_t step, const StepResult&) const;
  void start_clock();

  const Workload& workload_;
  Session& session_;
  TokenSource& data_;
  TrainerConfig config_;
  uint64_t rows_, step_tokens_;
  std::array<Batch, 2> batches_;  // of the two newest steps
  Batch evaluation_;
  Moved counted_{};
  Clocks began_;  // when the step before ended
};

}  // namespace strata
