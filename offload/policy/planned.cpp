#include "offload/policy/planned.hpp"

#include <algorithm>
#include <cstdio>

#include "offload/policy/fetch_schedule.hpp"

namespace strata {
namespace {

/// Of equal chunks, one may count as this much dearer than another.
constexpr double kSpread = 0.02;
/// Up to so many chunks the least transfers there are, if so many linear programs find them.
constexpr uint32_t kExactChunks = 12, kMostSolves = 1000;

/// Without a plan that fits: everything below the device, so that what is short is reported.
PolicyPlan nothing_kept(const PlacementInput& in) {
  return {place_below_device(in), std::vector<std::vector<Action>>(in.programs.size()), {}};
}

/// Updates come by hints, after what makes room for them.
std::vector<ChunkPlacement> placements(const StepModel& m, const std::vector<Choice>& choices) {
  std::vector<ChunkPlacement> out(m.update_slot.size(), ChunkPlacement::all(Place::device));
  for (ChunkId c = 0; c < out.size(); ++c) {
    out[c].defers_update = m.update_slot[c] != UINT32_MAX;
    out[c].keep_grad = KeepGrad::no;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    const StepModel::Object& o = m.objects[i];
    ChunkPlacement& p = out[o.id.chunk];
    p.homes[static_cast<size_t>(o.id.plane)] = choices[i].home;
    if (o.id.plane != Plane::grad) continue;
    for (size_t e = 0; e < o.events.size(); ++e) {
      const bool to_update = o.events[(e + 1) % o.events.size()].update;
      const bool stays = choices[i].kept[e] || m.gap(o, e).empty();
      if (to_update && stays && !o.speculated) p.keep_grad = KeepGrad::yes;
    }
  }
  for (const StepModel::Object& o : m.objects) {
    ChunkPlacement& p = out[o.id.chunk];
    p.speculates = o.speculated && !p.on_device();
  }
  return out;
}

/// Choices for another program with the same homes.
std::vector<Choice> with_homes(const StepModel& m, const std::vector<ChunkPlacement>& chunks) {
  std::vector<Choice> out;
  for (const StepModel::Object& o : m.objects) {
    const Place home = chunks[o.id.chunk].home(o.id.plane);
    out.push_back({home, std::vector<bool>(o.events.size(), home == Place::device)});
  }
  return out;
}

}  // namespace

Place staging_of(const PlacementInput& in) {
  return in.host_units >= 2 * largest_chunk(in) ? Place::host : Place::device;
}

bool may_speculate(const PlacementInput& in) {
  return in.stepwide && staging_of(in) == Place::device &&
         (in.overlap == OptimizerOverlap::automatic || in.overlap == OptimizerOverlap::speculative);
}

Room room_of(const PlacementInput& in, Place staging) {
  const uint32_t windows = WindowMap(in.layout, in.shape).units();
  Room room{in.device_units > windows ? in.device_units - windows : 0, in.host_units,
            in.nvme_units};
  if (staging == Place::device) room.host = 0;
  return room;
}

std::vector<bool> deferred_updates(const PlacementInput& in, const Program& program, double share,
                                   bool speculates) {
  const uint32_t chunks = in.layout.chunks();
  std::vector<bool> out(chunks, false);
  if (!program.trains()) return out;
  const bool at_end = in.overlap == OptimizerOverlap::none;
  const bool in_forward = at_end || in.overlap == OptimizerOverlap::forward;
  if (in_forward || (in.stepwide && !speculates)) return std::vector<bool>(chunks, true);
  if (in.overlap == OptimizerOverlap::backward) return out;
  std::vector<ChunkId> order;
  std::vector<bool> seen(chunks, false);
  for (const ProgramOp& op : program.ops()) {
    for (const ObjUse& u : op.uses) {
      if (!seen[u.object.chunk]) order.push_back(u.object.chunk);
      seen[u.object.chunk] = true;
    }
  }
  // The first is needed at once.
  for (size_t k = 1; k < order.size(); ++k) {
    const auto due = [&](size_t n) {
      return static_cast<uint64_t>(share * static_cast<double>(n));
    };
    out[order[k]] = due(k) > due(k - 1);
  }
  return out;
}

LinkUnits link_costs(const VirtualRates& r, size_t unit_bytes) {
  const auto unit = static_cast<double>(unit_bytes);
  LinkUnits out{unit / r.h2d_bytes_per_second, unit / r.d2h_bytes_per_second,
                unit / r.nvme_read_bytes_per_second, unit / r.nvme_write_bytes_per_second};
  if (r.nvme_mixed_bytes_per_second > 0) {
    const double together = 2 * unit / r.nvme_mixed_bytes_per_second;
    const double scale = together / (out.nvme_read + out.nvme_write);
    out.nvme_read *= scale;
    out.nvme_write *= scale;
  }
  return out;
}

LinkUnits link_costs_alone(VirtualRates rates, size_t unit_bytes) {
  rates.nvme_mixed_bytes_per_second = 0;
  return link_costs(rates, unit_bytes);
}

uint32_t PlannedPolicy::cheapest_on_nvme(const PlacementInput& in) {
  const Place staging = staging_of(in);
  const Program& program = *in.programs.front();
  const StepModel model =
      model_step(in.layout, in.shape, program, deferred_updates(in, program, 0), staging);
  const LinkUnits costs = link_costs(in.rates, in.shape.unit_bytes());
  return PlacementProgram(model, room_of(in, staging), costs).cheapest_staging();
}

std::string PlannedPolicy::name() const {
  char text[64];
  std::snprintf(text, sizeof text, "auto:defer=%g,staging=%u", defer_, staging_);
  return text + (on_nvme_ ? ",nvme=" + std::to_string(*on_nvme_) : "") +
         (speculate_ ? ",speculate=1" : "");
}

std::vector<Choice> PlannedPolicy::choose(const PlacementInput& in, const StepModel& model) const {
  Room room = room_of(in, model.updates_on_device ? Place::device : Place::host);
  room.device -= std::min(room.device, staging_);
  if (model.speculates) room.nvme /= 2;  // two versions
  const bool by_bytes = in.objective == Objective::bytes;
  const size_t unit = in.shape.unit_bytes();
  const LinkUnits costs = by_bytes ? link_costs_alone(in.rates, unit) : link_costs(in.rates, unit);
  const PlacementProgram lp(model, room, costs, by_bytes ? 0 : kSpread);
  if (by_bytes && in.layout.chunks() <= kExactChunks) return lp.round_exactly(kMostSolves);
  return lp.round(on_nvme_ ? *on_nvme_ : lp.cheapest_staging(), by_bytes);
}

PolicyPlan PlannedPolicy::plan(const PlacementInput& in) const {
  const Place staging = staging_of(in);
  const Room room = room_of(in, staging);
  const bool speculates =
      may_speculate(in) && (speculate_ || in.overlap == OptimizerOverlap::speculative);
  PolicyPlan out;
  out.staging = staging;
  out.link_units = std::min(staging_, kLinkUnits);
  out.obeys_overlap = true;
  for (const Program* program : in.programs) {
    const bool first = out.actions.empty();
    const std::vector<bool> deferred = deferred_updates(in, *program, defer_, speculates);
    const StepModel model =
        model_step(in.layout, in.shape, *program, deferred, staging, speculates);
    std::vector<Choice> choices;
    if (first) {
      choices = choose(in, model);
      if (choices.empty()) return nothing_kept(in);
      out.chunks = placements(model, choices);
    } else {
      choices = with_homes(model, out.chunks);
      Room left = room;
      left.device -= std::min(left.device, staging_);
      PlacementProgram(model, left, link_costs(in.rates, in.shape.unit_bytes()))
          .keep_what_fits(choices);
    }
    const bool cyclic = first && program->trains();
    out.actions.push_back(schedule_transfers(model, choices, room.device, cyclic));
  }
  return out;
}

}  // namespace strata
