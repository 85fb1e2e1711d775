#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Everything on the device: the reference for exactness and speed.
class ResidentPolicy final : public Policy {
 public:
  std::string name() const override { return "resident"; }
  std::vector<ChunkPlacement> place(const PlacementInput&) const override;
};

}  // namespace strata
