// What `strata bench curve` and `strata bench policies` share: sessions that are timed, the rates
// of this machine as their kernels and transfers find it, and budgets.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/nvme_transfers.hpp"
#include "cli/options.hpp"
#include "train/direct_step.hpp"
#include "train/random_tokens.hpp"

namespace strata {

/// Steps until what a step does repeats, and until processors that were idle are at full speed.
constexpr uint32_t kWarmUpSteps = 2;
/// A round that others disturbed is measured again, but for the last time.
constexpr int kMostTries = 3;

/// The fixed part: no policy, no rates.
SessionConfig session_config(const OffloadBenchArgs&);

/// Kernels run before and after a session, together for as many steps as that.
inline uint32_t half_steps(const OffloadBenchArgs& a) noexcept { return (a.steps + 1) / 2; }

/// Bytes of weights, remainders and records, with the padding of chunks; no gradients.
uint64_t model_data_bytes(const Workload&);

/// The device holds what is no state, and this fraction of the model data; the rest has room on
/// NVMe, or on the host where there is no NVMe. With clipping there is room for two versions, which
/// speculation takes.
Budgets offload_budgets(const Workload&, double fraction, bool nvme);

/// Of one step, on average.
struct StepMeans {
  double seconds = 0;
  double h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;  // bytes

  double bytes() const noexcept { return h2d + d2h + nvme_read + nvme_write; }
};

/// A session that trains on random tokens and is idle in between.
class TimedSession {
 public:
  /// Errors as of Session. Workload and plan outlive it.
  TimedSession(const Workload&, const PlanResult&, const Budgets&, const RunOptions&, double lr);

  /// Trains `kWarmUpSteps` and then `steps` without a pause, and ends what is left to do. Throws
  /// NonFinite when a step was not applied.
  StepMeans run(uint32_t steps);

 private:
  static void stamp(HostContext&, double* when);

  RandomTokens random_;
  Session session_;
  double lr_;
  uint64_t steps_ = 0;
};

/// The kernels of a step, and a way to time them.
class TimedKernels {
 public:
  TimedKernels(const Workload&, double lr);

  /// Means of whole steps: as many as asked for, and of this many seconds together, after
  /// `kWarmUpSteps`.
  DirectStep::Times run(uint32_t least_steps, double least_seconds);

 private:
  RandomTokens random_;
  DirectStep direct_;
  double lr_;
  uint64_t steps_ = 0;
};

/// Rates at which a simulation has the kernels take what they took; links as in `links`.
VirtualRates with_kernels(const VirtualRates& links, const Workload&, const DirectStep::Times&);

/// Measures copies of units between device and host.
void measure_copies(VirtualRates&, uint32_t threads, size_t unit_bytes, double seconds);
/// Measures reads, writes and both, each for so long.
void measure_drive(VirtualRates&, NvmeTransfers&, double seconds);

/// A store to probe the drives with: as the tier has it for this workload, in files of its own.
NvmeOptions probe_options(const OffloadBenchArgs&, const Workload&);

}  // namespace strata
