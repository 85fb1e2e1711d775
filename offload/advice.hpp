// What would make steps shorter, from what a run measured and what simulations predict. Pure.
#pragma once
#include <functional>
#include <optional>

#include "offload/simulator.hpp"
#include "runtime/virtual/virtual_backend.hpp"

namespace strata {

/// A mean step of a run. All but the bytes are in seconds.
struct MeasuredStep {
  double seconds = 0;
  Stalls stalls;
  /// At work; not known of compute.
  std::array<double, kResources> busy{};
  uint64_t h2d_bytes = 0, d2h_bytes = 0, nvme_read_bytes = 0, nvme_write_bytes = 0;

  /// What compute did itself.
  double compute() const noexcept { return seconds - stalls.sum(); }
  /// Of the step, 0 to 1.
  double stalled() const noexcept { return seconds > 0 ? stalls.sum() / seconds : 0; }
};

/// The rates at which the run did its work, where it did enough to tell; else those given, at which
/// `predicted` is a step of the same plan. Compute, updates and copies share the cores, as they do
/// on the host backend; a drive's rates are those it had beside its other direction.
VirtualRates rates_of_run(const MeasuredStep&, const Prediction& predicted, VirtualRates);

struct MemoryAdvice {
  uint64_t more = 0;  // bytes
  double step_seconds = 0;
  /// With all that could be of use.
  double least_seconds = 0;
  uint32_t predictions = 0;
};

/// The least more memory with which a step takes at most a twentieth of what could be gained longer
/// than with `most` more. `predict`: the seconds of a step with so many more bytes; nothing: it
/// does not fit. Called at most `calls` times, at least twice. Nothing when less than 2 % of `now`
/// can be gained.
std::optional<MemoryAdvice> advise_memory(
    double now, uint64_t most, uint32_t calls,
    const std::function<std::optional<double>(uint64_t more)>& predict);

/// Tokens of a step at which compute takes as long as what can go on beside it, if work other than
/// compute's does not depend on them; below it, steps wait. `work` is of a step of `tokens`.
/// Nothing where nothing can go on beside compute, or compute does nothing.
std::optional<double> critical_tokens(const std::array<double, kResources>& work,
                                      const VirtualRates&, uint64_t tokens);

}  // namespace strata
