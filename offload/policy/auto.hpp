#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Plans with every other policy, and with the linear program at several shares of deferred updates
/// and of units left to transfers; the plan that is predicted to be fastest is taken. What is tried
/// is a fixed list, so the same input gives the same plan. Steps of very many uses are planned with
/// the other policies alone.
class AutoPolicy final : public Policy {
 public:
  std::string name() const override { return "auto"; }
  bool streams() const noexcept override { return true; }
  std::vector<std::unique_ptr<Policy>> candidates(const PlacementInput&) const override;
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override;
  /// That the step is too large for linear programs, if it is.
  std::string remark(const PlacementInput&) const override;

  /// Uses of chunks in a step beyond which only the other policies are tried: planning would take
  /// longer than some seconds. Where the host stages updates there are more programs to solve.
  static constexpr size_t kMostUses = 15'000, kMostUsesStaged = 5'000;
};

}  // namespace strata
