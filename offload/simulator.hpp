// A plan in virtual time: how long a step takes, what it waits for, and what it moves. The engine
// is the one that runs for real, and issues the same.
#pragma once
#include <array>
#include <cstdint>

#include "offload/issue_log.hpp"
#include "runtime/backend.hpp"

namespace strata {

struct Plan;
struct PlanInput;
class Ledger;
class Timeline;

/// Steps that lead to the steady state, and steps that are measured after them.
struct SimulationLength {
  uint32_t warm_up = 1;
  uint32_t steps = 1;  // at least 1
  bool operator==(const SimulationLength&) const = default;
};

/// Of a step, in seconds: all that it takes beside compute's own work at full speed.
struct Stalls {
  /// Compute waited for this resource, which was at work, or for others that waited for it.
  std::array<double, kResources> on{};
  /// Compute had nothing to do: the issuer waited for the step before the last.
  double issuer = 0;
  /// Compute worked, but not at full speed: others that were busy shared the cores.
  double sharing = 0;

  double sum() const noexcept {
    double s = issuer + sharing;
    for (const double x : on) s += x;
    return s;
  }
};

/// Of a step in the steady state, as it follows another: nothing waits for a step to end, so that
/// updates of the last run beside the forward of the next. Means over the measured steps; counts
/// are rounded.
struct Prediction {
  double step_seconds = 0;
  uint64_t h2d_bytes = 0, d2h_bytes = 0, nvme_read_bytes = 0, nvme_write_bytes = 0;
  /// As EngineStats has them.
  uint64_t hits = 0, demand_misses = 0, prefetches = 0, wasted_prefetches = 0;
  uint64_t evictions = 0, updates = 0;
  /// Copies fetched ahead that were not there yet when compute came to their op.
  uint64_t late_prefetches = 0;
  /// `work[compute]` and the stalls add up to the step.
  Stalls stalls;
  /// What each resource does in a step, at full speed and alone, in seconds.
  std::array<double, kResources> work{};
};

/// Runs the first program of the input again and again, then each of the others once, and then all
/// that is left to do. Peaks are in the ledger. A timeline records its steps in virtual time.
Prediction simulate(const PlanInput&, const Plan&, Ledger&, SimulationLength,
                    IssueLog* log = nullptr, Timeline* timeline = nullptr);

}  // namespace strata
