#include "offload/planner.hpp"

#include <algorithm>
#include <cmath>

#include "offload/bound.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr auto kDevice = static_cast<size_t>(Tier::device);
constexpr auto kHost = static_cast<size_t>(Tier::host);
constexpr auto kNvme = static_cast<size_t>(Tier::nvme);

/// Units a budget holds beside `taken` bytes.
uint32_t units_in(size_t budget, size_t taken, size_t unit) {
  const size_t units = budget > taken ? (budget - taken) / unit : 0;
  return static_cast<uint32_t>(std::min<size_t>(units, UINT32_MAX));
}

/// Device units that could ever be used at once.
uint32_t useful_device_units(const PlanInput& in, const MemoryNeed& need) {
  if (need.stream_units == 0) return need.device_units();
  uint64_t all = std::max(need.stream_units, 2u);
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) {
    all += in.shape.units({c, Plane::weight}) + in.shape.units({c, Plane::grad});
  }
  const uint64_t fixed = need.fixed_units + need.home_units + need.kept_units;
  return static_cast<uint32_t>(
      std::max<uint64_t>(need.device_units(), std::min<uint64_t>(fixed + all, UINT32_MAX)));
}

/// Where updates of what lives on NVMe are staged: on the host where it has room, unless the policy
/// wants them on the device. Sets the need.
Place staging_of(const PlanInput& in, const PlacementInput& placement,
                 const std::vector<ChunkPlacement>& chunks, std::optional<Place> wanted,
                 uint32_t link_units, MemoryNeed& need) {
  const auto with = [&](Place staging) {
    return memory_need(in.layout, in.shape, in.programs, chunks, staging, link_units);
  };
  need = with(Place::host);
  if (wanted != Place::device && need.host_units <= placement.host_units) return Place::host;
  need = with(Place::device);
  return Place::device;
}

/// Whether an update of the chunk moves something, and all that it changes is on NVMe or the
/// device.
bool may_speculate(const PlanInput& in, ChunkId c, const ChunkPlacement& placed) {
  bool moves = false;
  for (const Plane plane : {Plane::weight, Plane::remainder, Plane::m, Plane::v}) {
    if (in.shape.units({c, plane}) == 0) continue;
    if (placed.home(plane) == Place::host) return false;
    moves = moves || placed.home(plane) == Place::nvme;
  }
  return moves && in.shape.trained(c);
}

/// Makes a policy's plan keep to the overlap that was asked for, unless it does already.
void obey_overlap(const PlanInput& in, PolicyPlan& decided) {
  const OptimizerOverlap overlap = in.overlap;
  if (overlap == OptimizerOverlap::automatic || decided.obeys_overlap) return;
  const bool waits = overlap == OptimizerOverlap::none || overlap == OptimizerOverlap::forward;
  const bool speculates = overlap == OptimizerOverlap::speculative && in.clip > 0;
  if (speculates) decided.staging = Place::device;
  for (ChunkId c = 0; c < decided.chunks.size(); ++c) {
    ChunkPlacement& placed = decided.chunks[c];
    if (in.clip <= 0) {
      if (overlap != OptimizerOverlap::speculative) placed.defers_update = waits;
      continue;
    }
    placed.speculates = speculates && !placed.defers_update && may_speculate(in, c, placed);
  }
}

/// Plans with one policy, whatever its candidates.
PlanResult plan_with(const PlanInput& in, const PlacementInput& placement) {
  const size_t unit = in.shape.unit_bytes();
  const Budgets& b = in.budgets;
  PlanResult r;
  Plan& plan = r.plan;
  plan.policy = in.policy.name();
  PolicyPlan decided = in.policy.plan(placement);
  obey_overlap(in, decided);
  plan.updates_at_end = in.overlap == OptimizerOverlap::none;
  plan.chunks = std::move(decided.chunks);
  plan.staging =
      staging_of(in, placement, plan.chunks, decided.staging, decided.link_units, plan.need);
  plan.host_units = plan.need.host_units;
  plan.nvme_units = plan.need.nvme_units;
  plan.device_units = std::clamp(placement.device_units, plan.need.device_units(),
                                 useful_device_units(in, plan.need));
  const auto bytes_of = [&](const MemoryNeed& need) {
    std::array<size_t, kTiers> out = b.external;
    out[kDevice] += need.non_model_bytes + need.device_units() * unit;
    out[kHost] += need.host_units * unit;
    out[kNvme] += need.nvme_units * unit;
    return out;
  };
  r.minimum = bytes_of(plan.need);
  for (size_t t = 0; t < kTiers; ++t) r.tiers[t].budget = b.bytes[t];
  for (const size_t t : {kDevice, kHost, kNvme}) {
    if (r.minimum[t] > b.bytes[t]) {
      r.shortfall.push_back({static_cast<Tier>(t), r.minimum[t] - b.bytes[t],
                             t == kDevice ? "activations, workspace and the units of the largest op"
                                          : "weights, gradients and optimizer records"});
    }
  }
  r.fits = r.shortfall.empty();
  if (r.fits) {
    plan.actions = std::move(decided.actions);
  } else {
    // The figures are those of the smallest budgets that would do.
    plan.device_units = plan.need.device_units();
  }
  std::array<size_t, kTiers> limits = r.minimum;
  if (r.fits) {
    limits = b.bytes;
    PolicyPlan least{in.policy.place_least(placement), {}, decided.staging};
    obey_overlap(in, least);
    MemoryNeed need;
    staging_of(in, placement, least.chunks, least.staging, kLinkUnits, need);
    r.minimum = bytes_of(need);
  }
  Ledger ledger(limits);
  std::vector<Reservation> external;
  for (size_t t = 0; t < kTiers; ++t) {
    external.push_back(ledger.reserve(static_cast<Tier>(t), Category::external, b.external[t]));
  }
  r.prediction = simulate(in, plan, ledger, r.fits ? in.simulation : SimulationLength{});
  for (size_t t = 0; t < kTiers; ++t) {
    const Tier tier = static_cast<Tier>(t);
    r.tiers[t].peak = ledger.peak(tier);
    for (size_t c = 0; c < kCategories; ++c) {
      r.tiers[t].by_category[c] = ledger.peak(tier, static_cast<Category>(c));
    }
  }
  return r;
}

size_t missing_bytes(const PlanResult& r) {
  size_t sum = 0;
  for (const Shortfall& s : r.shortfall) sum += s.bytes;
  return sum;
}

bool better(const PlanResult& a, const PlanResult& b, const PlanInput& in) {
  if (a.fits != b.fits) return a.fits;
  if (!a.fits) return missing_bytes(a) < missing_bytes(b);
  const double steps[] = {a.prediction.step_seconds, b.prediction.step_seconds};
  const double moves[] = {transfer_seconds(a.prediction, in.rates),
                          transfer_seconds(b.prediction, in.rates)};
  const bool by_bytes = in.objective == Objective::bytes;
  const auto& first = by_bytes ? moves : steps;
  const auto& second = by_bytes ? steps : moves;
  if (std::abs(first[0] - first[1]) > 1e-9 * first[1]) return first[0] < first[1];
  return second[0] < second[1] * (1 - 1e-9);
}

}  // namespace

PlacementInput placement_input(const PlanInput& in) {
  const size_t unit = in.shape.unit_bytes();
  const Budgets& b = in.budgets;
  const uint64_t non_model = non_model_bytes(in.layout, in.shape, in.programs);
  return {in.layout,
          in.shape,
          in.programs,
          units_in(b.bytes[kDevice], b.external[kDevice] + non_model, unit),
          units_in(b.bytes[kHost], b.external[kHost], unit),
          units_in(b.bytes[kNvme], b.external[kNvme], unit),
          in.clip > 0,
          in.rates,
          in.objective,
          in.overlap};
}

PlanResult make_plan(const PlanInput& in) {
  if (in.overlap == OptimizerOverlap::backward && in.clip > 0) {
    throw ConfigError(
        "optimizer overlap 'backward': with clipping, updates need the norm of all gradients, "
        "which "
        "is known after the backward pass; take 'speculative', 'forward' or 'auto', or clip at 0");
  }
  const PlacementInput placement = placement_input(in);
  // Of the device before all else, among what fits if anything does.
  std::array<size_t, kTiers> least{};
  const auto with = [&](const Policy& policy, SimulationLength simulation) {
    return plan_with({in.layout, in.shape, in.programs, policy, in.updater, in.budgets, in.clip,
                      in.rates, simulation, in.objective, in.overlap},
                     placement);
  };
  PlanResult best;
  for (std::unique_ptr<Policy>& candidate : in.policy.candidates(placement)) {
    PlanResult r = with(*candidate, {});
    r.policy = std::move(candidate);
    const bool first_to_fit = r.fits && !best.fits;
    if (best.policy == nullptr || first_to_fit || (r.fits == best.fits && r.minimum < least)) {
      least = r.minimum;
    }
    if (best.policy == nullptr || better(r, best, in)) best = std::move(r);
  }
  if (best.policy == nullptr) {
    best = with(in.policy, in.simulation);
    best.policy = std::shared_ptr<const Policy>(std::shared_ptr<void>(), &in.policy);  // not owned
    return best;
  }
  if (best.fits && in.simulation != SimulationLength{}) {
    const std::shared_ptr<const Policy> chosen = best.policy;
    best = with(*chosen, in.simulation);
    best.policy = chosen;
  }
  best.minimum = least;
  best.remark = in.policy.remark(placement);
  return best;
}

std::string describe_shortfall(const PlanResult& r) {
  std::string text = "does not fit";
  for (const Shortfall& s : r.shortfall) {
    text += std::string(": ") + name_of(s.tier) + " memory is short by " + std::to_string(s.bytes) +
            " bytes (budget " + std::to_string(r.tiers[static_cast<size_t>(s.tier)].budget) +
            ", minimum " + std::to_string(r.minimum[static_cast<size_t>(s.tier)]) + "), for " +
            s.what;
  }
  return text;
}

}  // namespace strata
