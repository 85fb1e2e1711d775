// `strata bench policies`: steps within budgets beside what the simulator says of them.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "offload/bound.hpp"
#include "offload/machine.hpp"

namespace strata {

/// Measures and prints; returns the exit code. Throws DoesNotFit when no row does.
int run_bench_policies(const BenchPoliciesArgs&);

/// One round: a run, and a simulation with the rates that were measured before and after it.
struct PolicySample {
  double measured = 0, simulated = 0;  ///< seconds of a step
  std::optional<double> others_share;
};

/// A policy within one budget of the device.
struct PolicyRow {
  std::string policy;
  double model_data = 0;
  uint64_t device_mem = 0;
  bool fits = false;                               ///< else there is nothing but the above
  double measured_bytes = 0, simulated_bytes = 0;  ///< a step, over all links
  Bound bound;
  std::vector<PolicySample> samples;

  MeasuredRate measured() const;   ///< seconds: median, least and most
  MeasuredRate simulated() const;  ///< the same
  MeasuredRate ratio() const;      ///< simulated over measured, round by round
  double bound_bytes() const noexcept;
  double others_share() const noexcept;
};

std::string policies_table(std::span<const PolicyRow>);
std::string policies_json(const BenchPoliciesArgs&, std::span<const PolicyRow>);

}  // namespace strata
