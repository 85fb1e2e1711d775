#include "offload/planner.hpp"

#include <algorithm>

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

}  // namespace

PlanResult make_plan(const PlanInput& in) {
  const size_t unit = in.shape.unit_bytes();
  const Budgets& b = in.budgets;
  const uint64_t non_model = non_model_bytes(in.layout, in.shape, in.programs);

  PlanResult r;
  Plan& plan = r.plan;
  const PlacementInput placement{in.layout,
                                 in.shape,
                                 in.programs,
                                 units_in(b.bytes[kDevice], b.external[kDevice] + non_model, unit),
                                 units_in(b.bytes[kHost], b.external[kHost], unit),
                                 units_in(b.bytes[kNvme], b.external[kNvme], unit)};
  plan.policy = in.policy.name();
  plan.chunks = in.policy.place(placement);
  plan.need = memory_need(in.layout, in.shape, in.programs, plan.chunks, Place::host);
  plan.staging = Place::host;
  if (plan.need.host_units > placement.host_units) {
    plan.staging = Place::device;
    plan.need = memory_need(in.layout, in.shape, in.programs, plan.chunks, plan.staging);
  }
  plan.host_units = plan.need.host_units;
  plan.nvme_units = plan.need.nvme_units;
  plan.device_units = std::clamp(placement.device_units, plan.need.device_units(),
                                 useful_device_units(in, plan.need));
  r.minimum[kDevice] =
      b.external[kDevice] + plan.need.non_model_bytes + plan.need.device_units() * unit;
  r.minimum[kHost] = b.external[kHost] + plan.host_units * unit;
  r.minimum[kNvme] = b.external[kNvme] + plan.nvme_units * unit;
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
    for (const Program* p : in.programs) {
      plan.actions.push_back(in.policy.actions(placement, *p, plan.chunks));
    }
  } else {
    // The figures are those of the smallest budgets that would do.
    plan.device_units = plan.need.device_units();
  }
  std::array<size_t, kTiers> limits = r.minimum;
  if (r.fits) limits = b.bytes;
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
