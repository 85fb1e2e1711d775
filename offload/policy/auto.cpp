#include "offload/policy/auto.hpp"

#include "offload/policy/planned.hpp"

namespace strata {
namespace {

bool stages_on_host(const PlacementInput& in) {
  return staging_of(in) == Place::host && in.nvme_units != 0;
}

size_t uses_of(const Program& program) {
  size_t sum = 0;
  for (const ProgramOp& op : program.ops()) sum += op.uses.size();
  return sum;
}

size_t most_uses(const PlacementInput& in) {
  return stages_on_host(in) ? AutoPolicy::kMostUsesStaged : AutoPolicy::kMostUses;
}

}  // namespace

std::string AutoPolicy::remark(const PlacementInput& in) const {
  const size_t uses = uses_of(*in.programs.front());
  if (uses <= most_uses(in)) return {};
  return "the step uses chunks " + std::to_string(uses) + " times, more than the " +
         std::to_string(most_uses(in)) +
         " that auto solves linear programs for; it is the best of the other policies; larger "
         "chunks give fewer uses";
}

std::vector<std::unique_ptr<Policy>> AutoPolicy::candidates(const PlacementInput& in) const {
  std::vector<std::unique_ptr<Policy>> out;
  for (const PolicyInfo& p : policies()) {
    if (p.name != name()) out.push_back(make_policy(p.name));
  }
  if (!remark(in).empty()) return out;
  // Units for transfers save time, not bytes.
  const bool by_bytes = in.objective == Objective::bytes;
  const std::vector<uint32_t> stagings =
      by_bytes ? std::vector{0u, 1u, 2u} : std::vector{2u, 4u, 8u, 16u};
  // Else each would find it out.
  std::optional<uint32_t> on_nvme;
  const bool stages = stages_on_host(in);
  if (stages && !by_bytes) on_nvme = PlannedPolicy::cheapest_on_nvme(in);
  const auto add = [&](std::initializer_list<double> shares, bool speculate) {
    for (const double defer : shares) {
      if (by_bytes && defer != 0) break;
      for (const uint32_t staging : stagings) {
        out.push_back(std::make_unique<PlannedPolicy>(defer, staging, on_nvme, speculate));
      }
    }
  };
  const bool chooses = in.overlap == OptimizerOverlap::automatic;
  const bool speculates = may_speculate(in);
  // With a step-wide value all updates wait in any case, unless they speculate.
  if (!in.stepwide && chooses && stages) {
    add({0, 0.3, 0.5}, false);
  } else if (!in.stepwide && chooses) {
    add({0, 0.2, 0.3, 0.4, 0.5}, false);
  } else if (!speculates || chooses) {
    add({0}, false);
  }
  if (speculates) add({0, 0.2, 0.4, 0.5, 0.6, 0.7}, true);
  return out;
}

std::vector<ChunkPlacement> AutoPolicy::place(const PlacementInput& in) const {
  return PlannedPolicy(0, 2).place(in);
}

}  // namespace strata
