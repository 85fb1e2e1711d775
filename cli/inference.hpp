// A trained model in memory: what `generate` and `eval` have in common.
#pragma once
#include <optional>
#include <string>

#include "cli/options.hpp"
#include "cli/run_source.hpp"
#include "train/session.hpp"

namespace strata {

/// The newest weights of a run, within budgets. Nothing of training is planned or loaded.
class Inference {
 public:
  /// `path` is a run or a checkpoint. Throws ConfigError, IoError, and DoesNotFit before anything
  /// is allocated.
  Inference(const std::string& path, const BudgetArgs&, Mode);

  /// The arguments of the run, without --out.
  const TrainArgs& run() const noexcept { return run_; }
  const FoundCheckpoint& checkpoint() const noexcept { return found_; }
  const Workload& workload() const noexcept { return *workload_; }
  Session& session() noexcept { return *session_; }
  /// Checkpoint, step, and what each tier holds at most, as JSON.
  std::string json() const;

 private:
  FoundCheckpoint found_;
  TrainArgs run_;
  Budgets budgets_;
  std::optional<Workload> workload_;
  std::optional<Session> session_;
};

}  // namespace strata
