#include "offload/bound.hpp"

#include <algorithm>

#include "offload/policy/planned.hpp"

namespace strata {

namespace {

double compute_seconds(const ProgramOp& op, const VirtualRates& rates) {
  return op.skip ? 0 : seconds_of({op.flops, op.bytes, op.seconds}, rates);
}

}  // namespace

double compute_seconds(const Program& program, const VirtualRates& rates) {
  double sum = 0;
  for (const ProgramOp& op : program.ops()) sum += compute_seconds(op, rates);
  return sum;
}

double transfer_seconds(const Prediction& p, const VirtualRates& rates) {
  const LinkUnits bytes{static_cast<double>(p.h2d_bytes), static_cast<double>(p.d2h_bytes),
                        static_cast<double>(p.nvme_read_bytes),
                        static_cast<double>(p.nvme_write_bytes)};
  return bytes.dot(link_costs_alone(rates, 1));
}

namespace {

double update_bytes(const PlanInput& in, ChunkId c) {
  uint64_t bytes = 0;
  for (const ChunkSlice& s : in.shape.slices(c)) {
    bytes += s.elems * in.updater.bytes_per_element();
  }
  return static_cast<double>(bytes);
}

std::vector<TimeBound::Chunk> chunks_of(const PlanInput& in, const Program& program, bool norm) {
  std::vector<double> until = {0};  // compute before each op
  std::vector<TimeBound::Chunk> out(in.layout.chunks());
  std::vector<OpIndex> completed(out.size(), 0);
  OpIndex last = 0;
  for (OpIndex i = 0; i < program.ops().size(); ++i) {
    const ProgramOp& op = program.ops()[i];
    until.push_back(until.back() + compute_seconds(op, in.rates));
    for (const ChunkId c : op.completes) completed[c] = last = i + 1;
  }
  for (ChunkId c = 0; c < out.size(); ++c) {
    if (completed[c] == 0) continue;
    const OpIndex first = program.next_use({c, Plane::weight}, 0);
    const OpIndex end = norm ? last : completed[c];
    const double bytes = update_bytes(in, c);
    out[c] = {bytes / in.rates.update_bytes_per_second, bytes / in.rates.memory_bytes_per_second,
              first < end ? until[end] - until[first] : 0};
  }
  return out;
}

}  // namespace

double update_seconds(const PlanInput& in) {
  double bytes = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) bytes += update_bytes(in, c);
  return bytes / in.rates.update_bytes_per_second;
}

namespace {

/// `in_backward`: no update waits for the next step.
Bound bound_with(const PlanInput& in, const PlacementInput& placement, Place staging,
                 const Room& room, bool in_backward) {
  const Program& program = *in.programs.front();
  const StepModel model = model_step(in.layout, in.shape, program,
                                     deferred_updates(placement, program, 0, in_backward), staging);
  const size_t unit = in.shape.unit_bytes();
  const LinkUnits costs = link_costs_alone(in.rates, unit);
  const PlacementProgram lp(model, room, costs);
  const LinearSolution least = lp.relax();
  Bound out;
  if (!least.feasible) return out;
  out.feasible = true;
  out.transfer_seconds = least.value;
  out.bytes.add(lp.moves_of(least), static_cast<double>(unit));
  TimeBound time;
  time.compute_seconds = compute_seconds(program, in.rates);
  time.one_processor = in.rates.one_processor;
  time.norm = placement.stepwide && !in_backward;
  time.chunks = chunks_of(in, program, time.norm);
  const double mixed = in.rates.nvme_mixed_bytes_per_second;
  time.one_drive = mixed > 0;
  if (mixed > 0) {
    time.saved_by_mixing =
        costs.nvme_read + costs.nvme_write - 2 * static_cast<double>(unit) / mixed;
  }
  out.step_seconds = lp.relax_time(time).value;
  return out;
}

/// What plans of either kind cost at least.
Bound least_of(const Bound& a, const Bound& b) {
  if (!a.feasible || !b.feasible) return a.feasible ? a : b;
  Bound out = a.transfer_seconds < b.transfer_seconds ? a : b;
  out.step_seconds = std::min(a.step_seconds, b.step_seconds);
  return out;
}

}  // namespace

Bound bound_of(const PlanInput& in) {
  const PlacementInput placement = placement_input(in);
  const Place staging = staging_of(placement);
  const Room room = room_of(placement, staging);
  Bound out = bound_with(in, placement, staging, room, false);
  // What speculation saves is in the bound, what it costs is not.
  if (may_speculate(placement)) out = least_of(out, bound_with(in, placement, staging, room, true));
  if (staging == Place::host && in.budgets.bytes[static_cast<size_t>(Tier::nvme)] != 0 &&
      !leaves_room_to_stage(placement)) {
    // Some policies then stage on the device: no dearer were the host part of it.
    const Room one{room.device + room.host, 0, room.nvme};
    out = least_of(out, bound_with(in, placement, Place::device, one, true));
  }
  return out;
}

}  // namespace strata
