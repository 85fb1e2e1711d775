// Units, copies, updates and addresses: what the engine does to make objects present.
#include <algorithm>
#include <cstring>

#include "offload/engine.hpp"
#include "offload/engine_kernels.hpp"
#include "runtime/errors.hpp"

namespace strata {

Category Engine::category_of(Plane p) const noexcept {
  if (p == Plane::weight) return Category::weight;
  return p == Plane::grad ? Category::grad : Category::optimizer;
}

void Engine::note(Issued kind, ObjId id, UnitId unit) {
  if (options_.log == nullptr) return;
  options_.log->push_back(
      {kind, id.plane, static_cast<uint16_t>(program_index_), cursor_, id.chunk, unit});
}

void Engine::create_objects() {
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      const ObjId id{c, static_cast<Plane>(p)};
      const uint32_t n = shape_.units(id);
      if (n == 0) continue;
      const Place home = plan_.chunks[c].home;
      table_.create(id, home);
      if (home == Place::device) {
        if (!try_attach(id, false)) throw StateError("the plan's device homes exceed its units");
        continue;
      }
      UnitList units;
      for (; units.count < n; ++units.count) {
        const auto u = host_->try_acquire(category_of(id.plane));
        if (!u) throw StateError("the plan's host homes exceed its units");
        units.ids[units.count] = *u;
      }
      table_.attach(id, Place::host, units);
    }
  }
}

void Engine::fetch_kept_weights() {
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    const ObjId id{c, Plane::weight};
    const Object& o = table_.at(id);
    if (!plan_.chunks[c].keep_weight || o.home == Place::device) continue;
    if (o.at(Place::device).present() || o.version == 0) continue;
    if (try_attach(id, false)) fetch(id);
  }
}

void Engine::make_present(const ObjUse& use) {
  const Object& o = table_.at(use.object);
  if (o.current(Place::device)) return;
  if (!o.at(Place::device).present() && !try_attach(use.object, true)) {
    throw StateError("no unit can be freed on the device for chunk " +
                     std::to_string(use.object.chunk) + ", plane " + name_of(use.object.plane) +
                     ", in op " + current_op().name + "; the plan is smaller than its minimum");
  }
  if (o.version == 0) return;  // a gradient's first write
  fetch(use.object);
  ++stats_.demand_misses;
}

bool Engine::try_attach(ObjId id, bool may_evict) {
  const uint32_t n = shape_.units(id);
  const int64_t window = windows_.first_unit(id);
  UnitList units;
  for (; units.count < n; ++units.count) {
    if (window >= 0) {
      units.ids[units.count] = static_cast<UnitId>(window) + units.count;
      device_->acquire_at(units.ids[units.count], category_of(id.plane));
      continue;
    }
    const auto u = acquire_unit(category_of(id.plane), may_evict);
    if (!u) {
      for (uint32_t i = 0; i < units.count; ++i) device_->release(units.ids[i]);
      return false;
    }
    units.ids[units.count] = *u;
  }
  table_.attach(id, Place::device, units);
  return true;
}

std::optional<UnitId> Engine::acquire_unit(Category category, bool may_evict) {
  auto u = device_->try_acquire(category);
  while (!u && may_evict) {
    const uint32_t before = device_->free_units();
    evict_one();
    if (device_->free_units() == before) return std::nullopt;
    u = device_->try_acquire(category);
  }
  return u;
}

bool Engine::evictable(ObjId id) const {
  const Object& o = table_.at(id);
  if (o.pins != 0 || o.home == Place::device) return false;
  return !(id.plane == Plane::weight && plan_.chunks[id.chunk].keep_weight);
}

void Engine::evict_one() {
  victims_.clear();
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    for (const Plane plane : {Plane::weight, Plane::grad}) {
      const ObjId id{c, plane};
      if (!table_.at(id).at(Place::device).present() || !evictable(id)) continue;
      if (windows_.first_unit(id) >= 0) continue;  // would free no unit for others
      victims_.push_back({id, last_use(id), program_->next_use(id, cursor_) - cursor_});
    }
  }
  if (victims_.empty()) return;
  const ObjId id = victims_[policy_.choose_victim(victims_)].object;
  const Object& o = table_.at(id);
  if (o.current(Place::device) && !o.home_current()) write_back(id);
  drop_device_copy(id);
  ++stats_.evictions;
}

void Engine::order_reads(ObjId id, Place place, Resource r) {
  const UnitList& units = table_.at(id).at(place).units;
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).order_read(backend_.stream(r), r);
  }
}

void Engine::order_writes(ObjId id, Place place, Resource r) {
  const UnitList& units = table_.at(id).at(place).units;
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).order_write(backend_.stream(r), r);
  }
}

void Engine::read_units(ObjId id, Place place, Resource r, const Fence& fence) {
  const UnitList& units = table_.at(id).at(place).units;
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).did_read(r, fence);
  }
}

void Engine::write_units(ObjId id, Place place, Resource r, const Fence& fence) {
  const UnitList& units = table_.at(id).at(place).units;
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).did_write(r, fence);
  }
}

void Engine::fetch(ObjId id) {
  const Object& o = table_.at(id);
  const UnitList &to = o.at(Place::device).units, &from = o.at(Place::host).units;
  Stream& h2d = backend_.stream(Resource::h2d);
  order_reads(id, Place::host, Resource::h2d);
  order_writes(id, Place::device, Resource::h2d);
  for (uint32_t i = 0; i < to.count; ++i) {
    h2d.copy(device_->address(to.ids[i]), host_->address(from.ids[i]), shape_.unit_bytes());
  }
  const Fence fence = h2d.record();
  read_units(id, Place::host, Resource::h2d, fence);
  write_units(id, Place::device, Resource::h2d, fence);
  table_.landed(id, Place::device);
  last_use(id) = tick_;
  stats_.h2d_bytes += to.count * shape_.unit_bytes();
  if (id.plane == Plane::weight) ++stats_.weight_fetches;
  note(Issued::fetch, id, to.ids[0]);
}

void Engine::write_back(ObjId id) {
  const Object& o = table_.at(id);
  const UnitList &from = o.at(Place::device).units, &to = o.at(Place::host).units;
  Stream& d2h = backend_.stream(Resource::d2h);
  order_reads(id, Place::device, Resource::d2h);
  order_writes(id, Place::host, Resource::d2h);
  for (uint32_t i = 0; i < to.count; ++i) {
    d2h.copy(host_->address(to.ids[i]), device_->address(from.ids[i]), shape_.unit_bytes());
  }
  const Fence fence = d2h.record();
  read_units(id, Place::device, Resource::d2h, fence);
  write_units(id, Place::host, Resource::d2h, fence);
  table_.landed(id, Place::host);
  stats_.d2h_bytes += to.count * shape_.unit_bytes();
  note(Issued::write_back, id, to.ids[0]);
}

void Engine::drop_device_copy(ObjId id) {
  const UnitList units = table_.drop(id, Place::device);
  note(Issued::drop, id, units.ids[0]);
  for (uint32_t i = 0; i < units.count; ++i) device_->release(units.ids[i]);
}

void Engine::update(ChunkId c) {
  Pending& p = pending_[c];
  p.pending = false;
  const ObjId weight{c, Plane::weight}, grad{c, Plane::grad};
  if (options_.mutations.skip_update == ++updates_seen_) return;
  const Place place = table_.at(weight).home;
  // The optimizer runs where the records are: on the device in compute order, on the host beside.
  const Resource r = place == Place::device ? Resource::compute : Resource::update;
  Stream& stream = backend_.stream(r);
  StepMirror& mirror = mirrors_[p.mirror];
  const bool stepwide = options_.clip > 0;
  const kernels::StepScale* scale;
  if (place == Place::device) {
    scale = stepwide
                ? &reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step())->scale
                : reinterpret_cast<kernels::StepScale*>(record_base_ + records_.chunk_scales()) + c;
    record_hazard_.order_read(stream, r);
  } else {
    scale = stepwide ? &mirror.record.scale : &chunk_scales_[c];
    (stepwide ? mirror.hazard : chunk_scale_hazards_[c]).order_read(stream, r);
  }
  constexpr Plane kWritten[] = {Plane::weight, Plane::remainder, Plane::m, Plane::v};
  for (const Plane plane : kWritten) order_writes({c, plane}, place, r);
  order_reads(grad, place, r);
  const auto& slices = shape_.slices(c);
  updater_.update(stream,
                  {addresses(c, place), slices.data(), static_cast<uint32_t>(slices.size()),
                   shape_.weight_type(), shape_.grad_type(), scale, &nonfinite_weight_, p.lr});
  const Fence fence = stream.record();
  for (const Plane plane : kWritten) {
    const ObjId id{c, plane};
    write_units(id, place, r, fence);
    if (shape_.units(id) != 0) table_.written(id, place);
  }
  read_units(grad, place, r, fence);
  if (place == Place::device) {
    record_hazard_.did_read(r, fence);
  } else {
    (stepwide ? mirror.hazard : chunk_scale_hazards_[c]).did_read(r, fence);
  }
  mirror.updates[static_cast<size_t>(r)] = fence;
  table_.kill(grad);
  ++stats_.updates;
  note(Issued::update, weight);
  if (place == Place::host && table_.at(weight).at(Place::device).present()) {
    if (plan_.chunks[c].keep_weight) {
      fetch(weight);
    } else if (table_.at(weight).pins == 0) {
      drop_device_copy(weight);
    }
  }
}

PlaneAddresses Engine::addresses(ChunkId c, Place place) const {
  PlaneAddresses out;
  out.unit_bytes = shape_.unit_bytes();
  for (size_t p = 0; p < kPlanes; ++p) {
    const UnitList& units = table_.at({c, static_cast<Plane>(p)}).at(place).units;
    for (uint32_t i = 0; i < units.count; ++i) out.units[p][i] = pool(place).address(units.ids[i]);
  }
  return out;
}

std::byte* Engine::address(ObjId id, Place place, uint64_t chunk_offset, size_t elem_size) const {
  const UnitList& units = table_.at(id).at(place).units;
  const uint64_t byte = chunk_offset * elem_size;
  return pool(place).address(units.ids[byte / shape_.unit_bytes()]) + byte % shape_.unit_bytes();
}

}  // namespace strata
