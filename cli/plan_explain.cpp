#include "cli/plan_explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.hpp"
#include "cli/sizes.hpp"
#include "offload/bound.hpp"
#include "offload/policy/planned.hpp"
#include "offload/roofline.hpp"

namespace strata {
namespace {

using Row = std::vector<std::string>;

/// What a chunk holds of the device all the time, and what moving its planes would cost otherwise.
struct Worth {
  uint32_t units = 0;
  double seconds = 0;
};

/// By chunk, whether its update is planned for the step after its own, before its first use.
std::vector<bool> updated_next_step(const Program& program, const Plan& plan) {
  std::vector<bool> out(plan.chunks.size(), false);
  if (plan.actions.empty()) return out;
  for (const Action& a : plan.actions.front()) {
    if (a.act != Act::update) continue;
    out[a.object.chunk] = a.issue_before <= program.next_use({a.object.chunk, Plane::weight}, 0);
  }
  return out;
}

std::string homes_of(const ChunkPlacement& c, const StateShape& shape, ChunkId chunk,
                     bool next_step) {
  std::string out;
  for (const Place place : kAllPlaces) {
    std::string planes;
    for (size_t p = 0; p < kPlanes; ++p) {
      const ObjId id{chunk, static_cast<Plane>(p)};
      if (shape.units(id) == 0 || c.home(id.plane) != place) continue;
      planes += std::string(planes.empty() ? "" : ", ") + name_of(id.plane);
    }
    if (!planes.empty()) out += (out.empty() ? "" : "; ") + planes + " on " + name_of(place);
  }
  if (c.keep_grad == KeepGrad::yes) out += "; gradient stays for its update";
  if (c.speculates) {
    out += "; updated before the norm is known";
  } else if (next_step) {
    out += "; updated in the next step";
  }
  return out;
}

std::string first_tensor(const ChunkLayout& layout, ChunkId c) {
  const auto pieces = layout.in_chunk(c);
  return pieces.empty() ? "" : layout.params()[pieces.front().param].name;
}

}  // namespace

std::string explain_plan(const PlanInput& in, const PlanResult& r) {
  const PlacementInput placement = placement_input(in);
  const bool speculates = r.plan.speculating_chunks() != 0;
  const StepModel model = model_step(
      in.layout, in.shape, *in.programs.front(),
      deferred_updates(placement, *in.programs.front(), 0, speculates), r.plan.staging, speculates);
  const size_t unit = in.shape.unit_bytes();
  const PlacementProgram lp(model, room_of(placement, r.plan.staging), link_costs(in.rates, unit));
  std::vector<Worth> worth(in.layout.chunks());
  for (size_t i = 0; i < model.objects.size(); ++i) {
    const StepModel::Object& o = model.objects[i];
    if (r.plan.chunks[o.id.chunk].home(o.id.plane) != Place::device) continue;
    worth[o.id.chunk].units += o.units;
    worth[o.id.chunk].seconds += lp.cost_when_streamed(i);
  }
  const std::vector<bool> next_step = updated_next_step(*in.programs.front(), r.plan);
  std::vector<Row> rows = {{"chunks", "from", "lives", "holds", "saves", "for each MiB"}};
  for (ChunkId c = 0; c < in.layout.chunks();) {
    ChunkId end = c + 1;
    while (end < in.layout.chunks() && r.plan.chunks[end] == r.plan.chunks[c] &&
           next_step[end] == next_step[c] && worth[end].units == worth[c].units) {
      ++end;
    }
    Worth sum;
    for (ChunkId i = c; i < end; ++i) {
      sum.units += worth[i].units;
      sum.seconds += worth[i].seconds;
    }
    const double mib = static_cast<double>(sum.units * unit) / (1 << 20);
    rows.push_back({c + 1 == end ? std::to_string(c) : fmt::format("{}-{}", c, end - 1),
                    first_tensor(in.layout, c),
                    homes_of(r.plan.chunks[c], in.shape, c, next_step[c]),
                    sum.units == 0 ? "-" : format_bytes(sum.units * unit),
                    sum.units == 0 ? "-" : fmt::format("{:.2f} ms", sum.seconds * 1e3),
                    sum.units == 0 ? "-" : fmt::format("{:.3f} ms", sum.seconds * 1e3 / mib)});
    c = end;
  }
  const Roofline limit = roofline(r.prediction.work, in.rates);
  const Bound bound = bound_of(in);
  std::string text = aligned_table(rows);
  text += fmt::format("\n\nTightest  {}: it works {:.1f} ms of a step of {:.1f} ms\n",
                      limit.bottleneck, limit.seconds * 1e3, r.prediction.step_seconds * 1e3);
  text += fmt::format(
      "Bound     no plan takes less than {:.1f} ms a step under these budgets, or than {:.1f} ms "
      "of "
      "transfers; this one's take {:.1f} ms",
      bound.step_seconds * 1e3, bound.transfer_seconds * 1e3,
      transfer_seconds(r.prediction, in.rates) * 1e3);
  return text;
}

}  // namespace strata
