// How near plans come to what no plan can do better than: counts and ratios, in virtual time.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "offload/bound.hpp"
#include "offload/trace_workload.hpp"

namespace strata {

/// Which tiers there are besides the device.
enum class Below : uint8_t { nvme, host, both };
constexpr std::array<Below, 3> kEveryBelow = {Below::nvme, Below::host, Below::both};
const char* name_of(Below) noexcept;

/// A step and the budgets it has.
class PlanCase {
 public:
  /// `device`: from 0, the least that streams, to 1, everything; `host`: the share of all planes
  /// that the host holds beside NVMe.
  PlanCase(const TraceFile&, const TraceWorkloadConfig&, Below, double device, double host,
           const VirtualRates&);

  /// The same step with so many seconds of compute, updates included where they share its cores,
  /// for each second that transfers take at least.
  PlanCase with_compute(double x) const;

  struct Bytes {
    double cost, bound;  // seconds of transfers
    double round_trip;   // seconds of the largest plane's, over all links
    double units;        // moved, where that is least
    /// Of the best whole choices, where they were found.
    std::optional<double> optimum;
    double over_bar() const noexcept { return (cost - 1.02 * bound) / round_trip; }
  };
  /// Of `auto --objective bytes`; nothing: no plan fits. `optimum_solves`: linear programs that may
  /// be solved for the optimum.
  std::optional<Bytes> bytes(uint32_t optimum_solves = 0) const;

  struct Time {
    double step, bound;
    /// No other policy's step is shorter.
    bool best;
    std::string chosen;  // the policy
  };
  /// Of `auto`. `others`: compares it with every other policy too.
  std::optional<Time> time(bool others) const;

  uint32_t chunks() const { return workload_->layout().chunks(); }
  /// Of all planes.
  uint64_t units() const;

 private:
  PlanInput input(const Policy&, SimulationLength = {}) const;
  double transfers_at_least() const;

  TraceFile file_;
  TraceWorkloadConfig config_;
  Below below_;
  VirtualRates rates_;
  std::shared_ptr<const TraceWorkload> workload_;
  Budgets budgets_;
};

/// Rates for programs of tiny chunks: no latency, and kernels beside the ops cost nothing.
VirtualRates rates_without_latency(Below);

}  // namespace strata
