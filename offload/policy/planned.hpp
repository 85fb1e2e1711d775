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
  /// device units left to transfers, at least one for each of two links; `speculate`: the others do
  /// not wait for a step-wide value, where updates come to the device.
  PlannedPolicy(double defer, uint32_t staging, bool speculate = false)
      : defer_(defer), staging_(std::max(staging, 2u)), speculate_(speculate) {}

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
  bool speculate_;
};

/// Whether updates come to the device: the host is too small to stage two of them.
Place staging_of(const PlacementInput&);
/// All units that may hold homes and copies; some of the host stage updates of what lives on NVMe.
Room room_of(const PlacementInput&, Place staging);
/// Which updates wait for the next step: an even share, in order of first use; with a step-wide
/// value all, unless the others speculate.
std::vector<bool> deferred_updates(const PlacementInput&, const Program&, double share,
                                   bool speculates = false);
/// What moving a unit costs in seconds; reads and writes of NVMe as they share the drive.
LinkUnits link_costs(const VirtualRates&, size_t unit_bytes);

}  // namespace strata
