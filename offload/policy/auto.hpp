#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Plans with every other policy, and with the linear program at several shares of deferred updates
/// and of units left to transfers; the plan that is predicted to be fastest is taken. What is tried
/// is a fixed list, so the same input gives the same plan.
class AutoPolicy final : public Policy {
 public:
  std::string name() const override { return "auto"; }
  bool streams() const noexcept override { return true; }
  std::vector<std::unique_ptr<Policy>> candidates(const PlacementInput&) const override;
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override;
};

}  // namespace strata
