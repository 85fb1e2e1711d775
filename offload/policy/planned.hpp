#pragma once
#include <algorithm>

#include "offload/policy/placement_lp.hpp"
#include "offload/policy/policy.hpp"

namespace strata {

/// Homes, what stays on the device between uses, and when transfers are issued, all from the linear
/// program of the step.
class PlannedPolicy final : public Policy {
 public:
  /// `defer`: the share of updates that wait for the next step where they need not; `staging`:
  /// device units left to transfers, at least one for each of two links.
  PlannedPolicy(double defer, uint32_t staging) : defer_(defer), staging_(std::max(staging, 2u)) {}

  std::string name() const override;
  bool streams() const noexcept override { return true; }
  PolicyPlan plan(const PlacementInput&) const override;
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override {
    return plan(in).chunks;
  }
  std::vector<ChunkPlacement> place_least(const PlacementInput& in) const override {
    return place_below_device(in);
  }

 private:
  double defer_;
  uint32_t staging_;
};

/// Whether updates come to the device: the host is too small to stage two of them.
Place staging_of(const PlacementInput&);
/// Which updates wait for the next step: an even share, in order of first use.
std::vector<bool> deferred_updates(const PlacementInput&, const Program&, double share);
/// What moving a unit costs in seconds; reads and writes of NVMe as they share the drive.
LinkCosts link_costs(const VirtualRates&, size_t unit_bytes);

}  // namespace strata
