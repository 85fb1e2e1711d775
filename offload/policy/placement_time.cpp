// The time of a step as a linear program: rows of what each resource and each chunk has to do.
#include <algorithm>

#include "offload/policy/placement_lp.hpp"

namespace strata {

void PlacementProgram::add_time_rows(LinearProgram& p, const TimeBound& bound) const {
  constexpr double kInfinity = LinearProgram::kInfinity;
  for (uint32_t v = 0; v < p.variables(); ++v) p.set_cost(v, 0);
  p.add_constant(-p.constant());
  const uint32_t time = p.add_variable(1, 0, kInfinity);
  // seconds of what is moved over some links, and `more`, are no longer than the step
  const auto row = [&](const LinkUnits& costs, double more) {
    const uint32_t r = p.add_row(-kInfinity, -more - always_.dot(costs));
    for (uint32_t v = 0; v < variable_moves_.size(); ++v) {
      const double seconds = variable_moves_[v].dot(costs);
      if (seconds != 0) p.add(r, v, seconds);
    }
    p.add(r, time, -1);
    return r;
  };
  const LinkUnits h2d{links_.h2d, 0, 0, 0}, d2h{0, links_.d2h, 0, 0};
  double updates = 0;  // all beside compute; those of chunks on the device are moved below
  for (const TimeBound::Chunk& c : bound.chunks) updates += c.update;
  uint32_t computing, updating;
  if (bound.one_processor) {
    computing = updating = row({links_.h2d, links_.d2h, 0, 0}, bound.compute_seconds + updates);
  } else {
    row(h2d, 0);
    row(d2h, 0);
    computing = row({}, bound.compute_seconds);
    updating = row({}, updates);
  }
  double least_chain = kInfinity;  // of a chunk that is not on the device
  for (size_t first = 0, end = 0; first < model_.objects.size(); first = end) {
    end = end_of_chunk(first);
    const TimeBound::Chunk& chunk = bound.chunks[model_.objects[first].id.chunk];
    if (chunk.update <= 0) {
      least_chain = 0;
      continue;
    }
    const uint32_t on_device = whole_on_device(p, first, end);
    p.add(updating, on_device, -chunk.update);
    p.add(computing, on_device, chunk.update_on_device);
    // From its first use in one step to that in the next: below the device, its gradient goes there
    // and its weights come back.
    double beside = chunk.update;
    for (size_t i = first; i < end && !model_.updates_on_device; ++i) {
      const StepModel::Object& o = model_.objects[i];
      if (o.id.plane == Plane::weight) beside += o.units * links_.h2d;
      if (o.id.plane == Plane::grad && !bound.norm) beside += o.units * links_.d2h;
    }
    const uint32_t chain = p.add_row(-kInfinity, -chunk.span - beside);
    p.add(chain, time, -1);
    p.add(chain, on_device, chunk.update_on_device - beside);
    least_chain = std::min(least_chain, chunk.span + beside);
  }
  if (!all_fits_on_device()) p.set_bounds(time, least_chain, kInfinity);
  if (!bound.one_drive) {
    row({0, 0, links_.nvme_read, 0}, 0);
    row({0, 0, 0, links_.nvme_write}, 0);
    return;
  }
  const uint32_t drive = row({0, 0, links_.nvme_read, links_.nvme_write}, 0);
  if (bound.saved_by_mixing > 0) {
    // Units that are read while as many are written.
    const uint32_t mixed = p.add_variable(0, 0, kInfinity);
    p.add(drive, mixed, -bound.saved_by_mixing);
    for (const LinkUnits& way : {LinkUnits{0, 0, 1, 0}, LinkUnits{0, 0, 0, 1}}) {
      const uint32_t r = p.add_row(-kInfinity, always_.dot(way));
      for (uint32_t v = 0; v < variable_moves_.size(); ++v) {
        const double units = variable_moves_[v].dot(way);
        if (units != 0) p.add(r, v, -units);
      }
      p.add(r, mixed, 1);
    }
  }
}

bool PlacementProgram::all_fits_on_device() const {
  std::vector<Choice> all;
  for (const StepModel::Object& o : model_.objects) {
    all.push_back({Place::device, std::vector<bool>(o.events.size(), true)});
  }
  return fits(all);
}

/// At most how much of a chunk lives on the device as a whole.
uint32_t PlacementProgram::whole_on_device(LinearProgram& p, size_t first, size_t end) const {
  if (!model_.updates_on_device) return variables_[first].device;
  const uint32_t whole = p.add_variable(0);
  for (size_t i = first; i < end; ++i) {
    const uint32_t row = p.add_row(-LinearProgram::kInfinity, 0);
    p.add(row, whole, 1);
    p.add(row, variables_[i].device, -1);
  }
  return whole;
}

}  // namespace strata
