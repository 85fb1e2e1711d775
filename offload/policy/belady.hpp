#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Evicts what is used furthest away, over the end of the step into the next one, and prefetches in
/// its place.
class BeladyPolicy final : public Policy {
 public:
  std::string name() const override { return "belady"; }
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override {
    return place_below_device(in);
  }
  bool streams() const noexcept override { return true; }
  /// About a block: what is fetched earlier takes the place of what would stay.
  uint32_t look_ahead() const noexcept override { return 10; }
  bool evicts_for_prefetch() const noexcept override { return true; }
};

}  // namespace strata
