#include "offload/policy/auto.hpp"

#include "offload/policy/planned.hpp"

namespace strata {

std::vector<std::unique_ptr<Policy>> AutoPolicy::candidates(const PlacementInput& in) const {
  std::vector<std::unique_ptr<Policy>> out;
  for (const PolicyInfo& p : policies()) {
    if (p.name != name()) out.push_back(make_policy(p.name));
  }
  // With a step-wide value all updates wait in any case.
  for (const double defer : {0.0, 0.2, 0.3, 0.4, 0.5}) {
    if (in.stepwide && defer != 0) break;
    for (const uint32_t staging : {2u, 4u, 8u, 16u}) {
      out.push_back(std::make_unique<PlannedPolicy>(defer, staging));
    }
  }
  return out;
}

std::vector<ChunkPlacement> AutoPolicy::place(const PlacementInput& in) const {
  return PlannedPolicy(0, 2).place(in);
}

}  // namespace strata
