#include "offload/policy/step_model.hpp"

#include <algorithm>

namespace strata {
namespace {

constexpr OpIndex kNever = UINT32_MAX;

/// First and last op that uses anything of each chunk.
struct Span {
  OpIndex first = kNever, last = 0;
};

std::vector<Span> spans_of(const Program& program, uint32_t chunks) {
  std::vector<Span> out(chunks);
  for (OpIndex i = 0; i < program.ops().size(); ++i) {
    for (const ObjUse& u : program.ops()[i].uses) {
      Span& s = out[u.object.chunk];
      s.first = std::min(s.first, i);
      s.last = i;
    }
  }
  return out;
}

/// The chunks whose update comes before, or after, each op.
struct Updates {
  std::vector<std::vector<ChunkId>> before, after;
};

Updates place_updates(const StateShape& shape, const Program& program,
                      const std::vector<Span>& spans, const std::vector<bool>& deferred) {
  Updates out;
  out.before.resize(program.ops().size());
  out.after.resize(program.ops().size());
  std::vector<ChunkId> order;
  for (ChunkId c = 0; c < spans.size(); ++c) {
    if (spans[c].first != kNever) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](ChunkId a, ChunkId b) { return spans[a].first < spans[b].first; });
  for (size_t k = 0; k < order.size(); ++k) {
    const ChunkId c = order[k];
    if (!shape.trained(c) || !program.trains()) continue;
    if (deferred[c]) {
      out.before[spans[order[k == 0 ? 0 : k - 1]].first].push_back(c);
    } else {
      out.after[spans[c].last].push_back(c);
    }
  }
  return out;
}

}  // namespace

StepModel::Gap StepModel::gap(const Object& o, size_t e) const noexcept {
  const uint32_t begin = o.events[e].last + 1;
  const bool wraps = e + 1 == o.events.size();
  return {begin, wraps ? o.events.front().first + slots() : o.events[e + 1].first};
}

std::vector<uint32_t> StepModel::units_in_use() const {
  std::vector<uint32_t> out(slots(), 0);
  for (const Object& o : objects) {
    for (const Event& e : o.events) {
      if (e.update && !updates_on_device) continue;
      for (uint32_t t = e.first; t <= e.last; ++t) out[t] += o.device_units;
    }
  }
  return out;
}

std::vector<int64_t> free_units(const StepModel& m, const std::vector<Choice>& choices,
                                uint32_t device) {
  std::vector<int64_t> out;
  for (const uint32_t used : m.units_in_use()) out.push_back(int64_t{device} - used);
  for (size_t i = 0; i < choices.size(); ++i) {
    m.for_each_kept_slot(m.objects[i], choices[i],
                         [&](uint32_t t, uint32_t units) { out[t] -= units; });
  }
  return out;
}

StepModel model_step(const ChunkLayout& layout, const StateShape& shape, const Program& program,
                     const std::vector<bool>& deferred, Place staging, bool speculates) {
  const std::vector<Span> spans = spans_of(program, layout.chunks());
  const Updates updates = place_updates(shape, program, spans, deferred);
  const WindowMap windows(layout, shape);
  StepModel m;
  m.ops = static_cast<OpIndex>(program.ops().size());
  m.updates_on_device = staging == Place::device;
  m.speculates = speculates;
  m.update_slot.assign(layout.chunks(), UINT32_MAX);
  std::vector<size_t> object_of(layout.chunks() * kPlanes, SIZE_MAX);
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      const ObjId id{c, static_cast<Plane>(p)};
      const uint32_t units = shape.units(id);
      if (units == 0) continue;
      object_of[c * kPlanes + p] = m.objects.size();
      const bool speculated = speculates && shape.trained(c) && !deferred[c];
      m.objects.push_back({id, units, windows.first_unit(id) >= 0 ? 0 : units, {}, speculated});
    }
  }
  const auto use = [&](ObjId id, uint32_t slot, bool update) {
    const size_t o = object_of[id.chunk * kPlanes + static_cast<size_t>(id.plane)];
    if (o == SIZE_MAX) return;
    std::vector<StepModel::Event>& events = m.objects[o].events;
    if (!events.empty() && !update && !events.back().update && events.back().last + 1 == slot) {
      events.back().last = slot;
    } else {
      events.push_back({slot, slot, update});
    }
  };
  const auto update = [&](ChunkId c, OpIndex before) {
    m.update_slot[c] = m.slots();
    for (size_t p = 0; p < kPlanes; ++p) use({c, static_cast<Plane>(p)}, m.slots(), true);
    m.op_of.push_back(before);
  };
  for (OpIndex i = 0; i < program.ops().size(); ++i) {
    for (const ChunkId c : updates.before[i]) update(c, i);
    for (const ObjUse& u : program.ops()[i].uses) use(u.object, m.slots(), false);
    m.op_of.push_back(i);
    for (const ChunkId c : updates.after[i]) update(c, i + 1);
  }
  return m;
}

}  // namespace strata
