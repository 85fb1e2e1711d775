// How fast a whole training step runs with everything resident.
#pragma once
#include "train/random_tokens.hpp"
#include "train/session.hpp"

namespace strata {

/// Trains on random tokens: loss, backward, clipping and update, all on the device.
class StepRate {
 public:
  /// Policy, chunk size and evaluation of the configuration are set here. Throws ConfigError, and
  /// DoesNotFit when the machine has too little memory.
  StepRate(SessionConfig, double lr);

  /// Mean seconds of a step over whole steps, at least `least_seconds` long together. Nothing of
  /// earlier steps is pending when it starts, nothing of its own when it ends. A step outside the
  /// measurement comes first where steps are short, to warm caches after a pause. Throws NonFinite
  /// when a step was not applied.
  double measure(double least_seconds);

  /// Tokens of one step.
  uint64_t tokens() const noexcept { return random_.tokens(); }
  /// Steps done so far.
  uint64_t steps() const noexcept { return steps_; }
  const Workload& workload() const noexcept { return *workload_; }

 private:
  double run_steps(uint32_t count);

  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Session> session_;
  double lr_;
  RandomTokens random_;
  uint64_t steps_ = 0;
  double last_seconds_ = 0;
};

}  // namespace strata
