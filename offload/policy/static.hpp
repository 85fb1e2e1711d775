#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Planned. The first `w` of the chunks, in computation order, keep their weights on the device,
/// the first `o` their whole state; the rest is fetched ahead of each use and evicted after it.
class StaticPolicy final : public Policy {
 public:
  StaticPolicy(double weights, double optimizer) : weights_(weights), optimizer_(optimizer) {}

  std::string name() const override;
  std::vector<ChunkPlacement> place(const PlacementInput&) const override;
  std::vector<Action> actions(const PlacementInput&, const Program&,
                              const std::vector<ChunkPlacement>&) const override;

 private:
  double weights_, optimizer_;
};

}  // namespace strata
