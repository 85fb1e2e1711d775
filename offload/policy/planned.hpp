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
  /// device units left to transfers; `on_nvme`: the most units of a chunk that are on NVMe while
  /// the host stages updates, or somewhat more; none: what costs least; `speculate`: updates that
  /// do not wait for the next step do not wait for a step-wide value, where they come to the
  /// device.
  PlannedPolicy(double defer, uint32_t staging, std::optional<uint32_t> on_nvme = {},
                bool speculate = false)
      : defer_(defer), staging_(staging), on_nvme_(on_nvme), speculate_(speculate) {}

  /// Of a step in which updates come as `model` says, one an object; none: nothing fits.
  std::vector<Choice> choose(const PlacementInput&, const StepModel& model) const;
  /// What all plans for an input may share.
  static uint32_t cheapest_on_nvme(const PlacementInput&);

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
  std::optional<uint32_t> on_nvme_;
  bool speculate_;
};

/// Whether updates come to the device: the host is too small to stage two of them.
Place staging_of(const PlacementInput&);
/// Whether there is a value to speculate on, updates come to the device and the overlap asked for
/// allows it.
bool may_speculate(const PlacementInput&);
/// All units that may hold homes and copies.
Room room_of(const PlacementInput&, Place staging);
/// Which updates wait for the next step: an even share, in order of first use; with a step-wide
/// value all, unless the others speculate.
std::vector<bool> deferred_updates(const PlacementInput&, const Program&, double share,
                                   bool speculates = false);
/// What moving a unit costs in seconds; reads and writes of NVMe as they share the drive.
LinkUnits link_costs(const VirtualRates&, size_t unit_bytes);
/// The same for reads and writes that have the drive for themselves.
LinkUnits link_costs_alone(VirtualRates, size_t unit_bytes);

}  // namespace strata
