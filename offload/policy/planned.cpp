#include "offload/policy/planned.hpp"

#include <algorithm>
#include <cstdio>

#include "offload/policy/fetch_schedule.hpp"

namespace strata {
namespace {

/// Of equal chunks, one may count as this much dearer than another.
constexpr double kSpread = 0.02;

/// Without a plan that fits: everything below the device, so that what is short is reported.
PolicyPlan nothing_kept(const PlacementInput& in) {
  return {place_below_device(in), std::vector<std::vector<Action>>(in.programs.size()), {}};
}

std::vector<ChunkPlacement> placements(const StepModel& m, const std::vector<Choice>& choices,
                                       const std::vector<bool>& deferred) {
  std::vector<ChunkPlacement> out(deferred.size(), ChunkPlacement::all(Place::device));
  for (ChunkId c = 0; c < deferred.size(); ++c) {
    out[c].defers_update = deferred[c];
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
      if (to_update && m.updates_on_device && stays && !o.speculated) p.keep_grad = KeepGrad::yes;
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

uint32_t largest_chunk(const PlacementInput& in) {
  uint32_t largest = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) {
    largest = std::max(largest, in.shape.chunk_units(c));
  }
  return largest;
}

}  // namespace

Place staging_of(const PlacementInput& in) {
  return in.host_units >= 2 * largest_chunk(in) ? Place::host : Place::device;
}

Room room_of(const PlacementInput& in, Place staging) {
  const uint32_t windows = WindowMap(in.layout, in.shape).units();
  Room room{in.device_units > windows ? in.device_units - windows : 0, in.host_units,
            in.nvme_units};
  if (staging == Place::device) {
    room.host = 0;
  } else if (in.nvme_units != 0) {
    room.host -= 2 * largest_chunk(in);
  }
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

std::string PlannedPolicy::name() const {
  char text[64];
  std::snprintf(text, sizeof text, "auto:defer=%g,staging=%u%s", defer_, staging_,
                speculate_ ? ",speculate=1" : "");
  return text;
}

PolicyPlan PlannedPolicy::plan(const PlacementInput& in) const {
  const Place staging = staging_of(in);
  Room room = room_of(in, staging);
  const uint32_t device = room.device;
  room.device -= std::min(device, staging_);
  const bool speculates = in.stepwide && staging == Place::device &&
                          (in.overlap == OptimizerOverlap::speculative ||
                           (speculate_ && in.overlap == OptimizerOverlap::automatic));
  if (speculates) room.nvme /= 2;  // two versions
  const LinkUnits costs = link_costs(in.rates, in.shape.unit_bytes());
  PolicyPlan out;
  out.staging = staging;
  for (const Program* program : in.programs) {
    const bool first = out.actions.empty();
    const std::vector<bool> deferred = deferred_updates(in, *program, defer_, speculates);
    const StepModel model =
        model_step(in.layout, in.shape, *program, deferred, staging, speculates);
    std::vector<Choice> choices;
    if (first) {
      choices = PlacementProgram(model, room, costs, kSpread).round();
      if (choices.empty()) return nothing_kept(in);
      out.chunks = placements(model, choices, deferred);
    } else {
      choices = with_homes(model, out.chunks);
      PlacementProgram(model, room, costs).keep_what_fits(choices);
    }
    const bool cyclic = first && program->trains();
    out.actions.push_back(schedule_transfers(model, choices, deferred, device, cyclic));
  }
  return out;
}

}  // namespace strata
