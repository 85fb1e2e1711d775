#include "offload/plan.hpp"

#include <algorithm>

#include "offload/step_record.hpp"
#include "runtime/hash.hpp"

namespace strata {

const char* name_of(Act a) noexcept {
  constexpr const char* kNames[] = {"fetch", "evict", "write_back", "update"};
  return kNames[static_cast<size_t>(a)];
}

const char* name_of(OptimizerOverlap o) noexcept {
  constexpr const char* kNames[] = {"auto", "none", "forward", "backward", "speculative"};
  return kNames[static_cast<size_t>(o)];
}

uint32_t Plan::speculating_chunks() const noexcept {
  return static_cast<uint32_t>(std::count_if(chunks.begin(), chunks.end(),
                                             [](const ChunkPlacement& c) { return c.speculates; }));
}

uint64_t Plan::hash() const {
  Hasher h;
  h.text(policy);
  h.number(chunks.size());
  for (const ChunkPlacement& c : chunks) {
    for (const Place p : c.homes) h.number(static_cast<uint64_t>(p));
    h.number(static_cast<uint64_t>(c.keep_weight));
    h.number(static_cast<uint64_t>(c.keep_grad));
    h.number(static_cast<uint64_t>(c.defers_update));
    h.number(static_cast<uint64_t>(c.speculates));
  }
  h.number(device_units);
  h.number(host_units);
  h.number(nvme_units);
  h.number(static_cast<uint64_t>(staging));
  h.number(static_cast<uint64_t>(updates_at_end));
  h.number(need.non_model_bytes);
  for (const auto& list : actions) {
    h.number(list.size());
    for (const Action& a : list) {
      h.number(static_cast<uint64_t>(a.act));
      h.number(a.object.chunk);
      h.number(static_cast<uint64_t>(a.object.plane));
      h.number(a.issue_before);
    }
  }
  return h.digest();
}

WindowMap::WindowMap(const ChunkLayout& layout, const StateShape& shape)
    : first_(layout.chunks() * 2, -1) {
  // All weights of a run of spanned chunks lie together, then all its gradients, so that a tensor
  // is contiguous in both.
  for (ChunkId c = 0; c < layout.chunks();) {
    ChunkId end = c;
    while (end < layout.chunks() && layout.in_span(end)) ++end;
    for (const Plane plane : {Plane::weight, Plane::grad}) {
      for (ChunkId i = c; i < end; ++i) {
        const uint32_t n = shape.units({i, plane});
        if (n == 0) continue;
        first_[i * 2 + static_cast<size_t>(plane)] = units_;
        units_ += n;
      }
    }
    c = std::max(end, c + 1);
  }
}

uint64_t record_bytes(const ChunkLayout& layout, const StateShape& shape, uint32_t micro_batches) {
  return RecordLayout(layout, shape, micro_batches).bytes();
}

uint64_t non_model_bytes(const ChunkLayout& layout, const StateShape& shape,
                         const std::vector<const Program*>& programs) {
  uint64_t values = 0;
  for (const Program* p : programs) values = std::max(values, p->non_model_bytes());
  return values + record_bytes(layout, shape, programs.front()->micro_batches());
}

MemoryNeed memory_need(const ChunkLayout& layout, const StateShape& shape,
                       const std::vector<const Program*>& programs,
                       const std::vector<ChunkPlacement>& chunks, Place staging,
                       uint32_t link_units) {
  const WindowMap windows(layout, shape);
  MemoryNeed need;
  need.fixed_units = windows.units();
  const auto streamed = [&](ObjId id) {
    const bool at_home = chunks[id.chunk].home(id.plane) == Place::device;
    if (windows.first_unit(id) >= 0 || at_home) return false;
    return !(id.plane == Plane::weight && chunks[id.chunk].keep_weight);
  };
  uint32_t largest_update = 0;  // units that one update, or loading, brings in from NVMe
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    uint32_t update = 0;
    for (size_t p = 0; p < kPlanes; ++p) {
      const ObjId id{c, static_cast<Plane>(p)};
      const uint32_t units = shape.units(id);
      const bool windowed = windows.first_unit(id) >= 0;
      if (chunks[c].speculates && id.plane != Plane::grad) need.nvme_units += units;  // older
      switch (chunks[c].home(id.plane)) {
        case Place::device: need.home_units += windowed ? 0 : units; continue;
        case Place::host: need.host_units += units; break;
        case Place::nvme:
          need.nvme_units += units;
          if (staging == Place::host || streamed(id)) update += units;
          break;
      }
      if (!streamed(id) && !windowed) need.kept_units += units;
    }
    largest_update = std::max(largest_update, update);
  }
  if (largest_update != 0) {
    // Two, so that one is written back while the next is read.
    if (staging == Place::host) need.host_units += 2 * largest_update;
    if (staging == Place::device) need.stream_units = largest_update + link_units;
  }
  for (const Program* program : programs) {
    for (const ProgramOp& op : program->ops()) {
      uint32_t units = 0;
      for (const ObjUse& u : op.uses) units += streamed(u.object) ? shape.units(u.object) : 0;
      if (units != 0) need.stream_units = std::max(need.stream_units, units + link_units);
    }
  }
  need.non_model_bytes = non_model_bytes(layout, shape, programs);
  return need;
}

}  // namespace strata
