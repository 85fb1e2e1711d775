#include "offload/policy/auto.hpp"

#include "offload/policy/planned.hpp"

namespace strata {

std::vector<std::unique_ptr<Policy>> AutoPolicy::candidates(const PlacementInput& in) const {
  std::vector<std::unique_ptr<Policy>> out;
  for (const PolicyInfo& p : policies()) {
    if (p.name != name()) out.push_back(make_policy(p.name));
  }
  const auto add = [&](std::initializer_list<double> shares, bool speculate) {
    for (const double defer : shares) {
      for (const uint32_t staging : {2u, 4u, 8u, 16u}) {
        out.push_back(std::make_unique<PlannedPolicy>(defer, staging, speculate));
      }
    }
  };
  const bool chooses = in.overlap == OptimizerOverlap::automatic;
  const bool may_speculate = in.stepwide && staging_of(in) == Place::device &&
                             (chooses || in.overlap == OptimizerOverlap::speculative);
  // With a step-wide value all updates wait in any case, unless they speculate.
  if (!in.stepwide && chooses) {
    add({0, 0.2, 0.3, 0.4, 0.5}, false);
  } else if (!may_speculate || chooses) {
    add({0}, false);
  }
  if (may_speculate) add({0, 0.2, 0.4, 0.5, 0.6, 0.7}, true);
  return out;
}

std::vector<ChunkPlacement> AutoPolicy::place(const PlacementInput& in) const {
  return PlannedPolicy(0, 2).place(in);
}

}  // namespace strata
