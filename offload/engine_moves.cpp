// Units, copies and addresses: what the engine does to make objects present.
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
      if (shape_.units(id) == 0) continue;
      const Place home = plan_.chunks[c].home(id.plane);
      table_.create(id, home);
      if (!(home == Place::device ? try_attach(id, false) : attach_below(id, home))) {
        throw StateError(std::string("the plan's ") + name_of(home) + " homes exceed its units");
      }
    }
    if (plan_.chunks[c].speculates) create_older(c);
  }
}

std::string Engine::describe_home(Place place, UnitId unit) const {
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      const Object& o = table_.at({c, static_cast<Plane>(p)});
      const auto in = [unit](const UnitList& units) {
        const auto end = units.ids.begin() + units.count;
        return std::find(units.ids.begin(), end, unit) != end;
      };
      const bool older = place == Place::nvme && in(older_[c * kPlanes + p]);
      if (!o.exists || (!older && (o.home != place || !in(o.at(place).units)))) continue;
      const auto pieces = layout_.in_chunk(c);
      return std::string(older ? "an older " : "") + name_of(static_cast<Plane>(p)) + " of chunk " +
             std::to_string(c) + " (" + layout_.params()[pieces.front().param].name +
             (pieces.size() > 1 ? ", ...)" : ")");
    }
  }
  return "nothing between uses";
}

/// Units of host or NVMe; none: there are not enough.
UnitList Engine::acquire_below(ObjId id, Place place) {
  UnitList units;
  for (const uint32_t n = shape_.units(id); units.count < n; ++units.count) {
    const auto u = pool(place).try_acquire(category_of(id.plane));
    if (!u) {
      for (uint32_t i = 0; i < units.count; ++i) pool(place).release(units.ids[i]);
      return {};
    }
    units.ids[units.count] = *u;
  }
  return units;
}

bool Engine::attach_below(ObjId id, Place place) {
  const UnitList units = acquire_below(id, place);
  if (units.count == 0) return false;
  table_.attach(id, place, units);
  return true;
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
  if (o.current(Place::device)) {
    ++stats_.hits;
    return;
  }
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
  // What an op makes should not wait until the unit's last content is written.
  const Take take = table_.at(id).version == 0 ? Take::rather_by_compute : Take::oldest;
  UnitList units;
  for (; units.count < n; ++units.count) {
    if (window >= 0) {
      units.ids[units.count] = static_cast<UnitId>(window) + units.count;
      pool(Place::device).acquire_at(units.ids[units.count], category_of(id.plane));
      continue;
    }
    const auto u = acquire_unit(category_of(id.plane), take, may_evict);
    if (!u) {
      for (uint32_t i = 0; i < units.count; ++i) pool(Place::device).release(units.ids[i]);
      return false;
    }
    units.ids[units.count] = *u;
  }
  table_.attach(id, Place::device, units);
  now_on_device(id, true);
  return true;
}

std::optional<UnitId> Engine::acquire_unit(Category category, Take take, bool may_evict) {
  auto u = pool(Place::device).try_acquire(category, take);
  while (!u && may_evict) {
    if (!evict_one(0)) return std::nullopt;
    u = pool(Place::device).try_acquire(category, take);
  }
  return u;
}

/// Whether a copy on the device can be given up for its unit while it is not pinned.
bool Engine::may_be_evicted(ObjId id) const {
  if (id.plane > Plane::grad || table_.at(id).home == Place::device) return false;
  if (windows_.first_unit(id) >= 0) return false;  // would free no unit for others
  return !(id.plane == Plane::weight && plan_.chunks[id.chunk].keep_weight);
}

/// Notes a copy that came to the device, or left it.
void Engine::now_on_device(ObjId id, bool there) {
  if (options_.timeline != nullptr) options_.timeline->on_device(id, cursor_, there);
  if (!may_be_evicted(id)) return;
  const auto at = std::lower_bound(evictable_.begin(), evictable_.end(), object_index(id));
  if (there) {
    evictable_.insert(at, object_index(id));
  } else {
    evictable_.erase(at);
  }
}

bool Engine::evictable(ObjId id) const {
  const Object& o = table_.at(id);
  if (o.pins != 0 || o.home == Place::device) return false;
  return !(id.plane == Plane::weight && plan_.chunks[id.chunk].keep_weight);
}

/// Ops until an object is used next, past the end of the program into the next training step. A
/// gradient that waits for its update is used by it, before the chunk's weights.
OpIndex Engine::next_use(ObjId id) {
  const Pending& p = pending_[id.chunk];
  if (id.plane == Plane::grad && (p.ready || p.pending || p.speculated)) id.plane = Plane::weight;
  NextUse& next = next_use_[object_index(id)];
  if (next.run != runs_ || next.at < cursor_) {
    const auto end = static_cast<OpIndex>(program_->ops().size());
    const OpIndex at = program_->next_use(id, cursor_);
    next = {runs_, at < end ? at : end + programs_.front()->next_use(id, 0)};
  }
  return next.at - cursor_;
}

bool Engine::evict_one(OpIndex least_distance) {
  victims_.clear();
  for (const size_t index : evictable_) {
    const ObjId id{static_cast<ChunkId>(index / kPlanes), static_cast<Plane>(index % kPlanes)};
    if (table_.at(id).pins != 0) continue;
    const OpIndex distance = next_use(id);
    if (distance < least_distance) continue;
    victims_.push_back({id, last_use_[index], distance, program_->ops().size() - cursor_});
  }
  if (victims_.empty()) return false;
  evict(victims_[policy_.choose_victim(victims_)].object);
  ++stats_.evictions;
  return true;
}

void Engine::order_reads(const UnitList& units, Place place, Resource r) {
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).order_read(backend_.stream(r), r);
  }
}

void Engine::order_writes(const UnitList& units, Place place, Resource r) {
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).order_write(backend_.stream(r), r);
  }
}

void Engine::read_units(const UnitList& units, Place place, Resource r, const Fence& fence) {
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).did_read(r, fence);
  }
}

void Engine::write_units(const UnitList& units, Place place, Resource r, const Fence& fence) {
  for (uint32_t i = 0; i < units.count; ++i) {
    pool(place).hazard(units.ids[i]).did_write(r, fence);
  }
}

namespace {

/// The stream of a link. Between host and NVMe, and device and NVMe, transfers are direct.
Resource link(Place from, Place to) noexcept {
  if (from == Place::nvme) return Resource::nvme_read;
  if (to == Place::nvme) return Resource::nvme_write;
  return to == Place::device ? Resource::h2d : Resource::d2h;
}

}  // namespace

/// Copies an object's content between units, whichever version they hold.
void Engine::transfer(ObjId id, const UnitList& src, Place from, const UnitList& dst, Place to) {
  const Resource r = link(from, to);
  Stream& stream = backend_.stream(r);
  if (options_.timeline != nullptr) stream.set_label(options_.timeline->move(id, from, to));
  order_reads(src, from, r);
  order_writes(dst, to, r);
  for (uint32_t i = 0; i < dst.count; ++i) {
    stream.copy(pool(to).address(dst.ids[i]), pool(from).address(src.ids[i]), shape_.unit_bytes());
  }
  const Fence fence = stream.record();
  read_units(src, from, r, fence);
  write_units(dst, to, r, fence);
  const uint64_t bytes = dst.count * shape_.unit_bytes();
  switch (r) {
    case Resource::h2d: stats_.h2d_bytes += bytes; break;
    case Resource::d2h: stats_.d2h_bytes += bytes; break;
    case Resource::nvme_read: stats_.nvme_read_bytes += bytes; break;
    default: stats_.nvme_write_bytes += bytes; break;
  }
}

void Engine::move(ObjId id, Place from, Place to) {
  transfer(id, units_of(id, from), from, units_of(id, to), to);
  table_.landed(id, to);
}

/// Brings the newest content to the device, from the nearest place.
void Engine::fetch(ObjId id) {
  const Object& o = table_.at(id);
  const Place from = o.current(Place::host) ? Place::host : Place::nvme;
  if (policy_.fetches_in_order() && tick_ != 0) {
    backend_.stream(link(from, Place::device)).wait(op_fences_[(tick_ - 1) % op_fences_.size()]);
  }
  end_prefetch(id, Ahead::no);
  move(id, from, Place::device);
  last_use(id) = tick_;
  if (id.plane == Plane::weight) ++stats_.weight_fetches;
  note(Issued::fetch, id, o.at(Place::device).units.ids[0]);
}

void Engine::write_back(ObjId id, Place from) {
  const Place home = table_.at(id).home;
  move(id, from, home);
  note(Issued::write_back, id, table_.at(id).at(home).units.ids[0]);
}

void Engine::begin_prefetch(ObjId id) {
  ++stats_.prefetches;
  ++waiting_prefetches_;
  ahead_[object_index(id)] = Ahead::waiting;
}

void Engine::end_prefetch(ObjId id, Ahead becomes) {
  Ahead& ahead = ahead_[object_index(id)];
  if (ahead != Ahead::waiting) return;
  ahead = becomes;
  --waiting_prefetches_;
  stats_.wasted_prefetches += becomes == Ahead::no;
}

void Engine::drop_copy(ObjId id, Place place, Freed how) {
  if (place == Place::device) end_prefetch(id, Ahead::no);
  const UnitList units = table_.drop(id, place);
  if (place == Place::device) now_on_device(id, false);
  note(Issued::drop, id, units.ids[0]);
  for (uint32_t i = 0; i < units.count; ++i) pool(place).release(units.ids[i], how);
}

/// Drops the device's copy; what it alone has goes home before.
void Engine::evict(ObjId id) {
  const Object& o = table_.at(id);
  const bool dirty = o.current(Place::device) && !o.home_current();
  if (dirty) write_back(id, Place::device);
  drop_copy(id, Place::device, dirty ? Freed::by_transfer : Freed::by_compute);
}

/// Makes an object's newest content addressable, pinned until `unstage`, and says where: at home,
/// or for NVMe where the plan stages updates.
Place Engine::stage(ObjId id) {
  const Object& o = table_.at(id);
  const Place place = o.home == Place::nvme ? plan_.staging : o.home;
  table_.pin(id);
  const bool stayed = place != Place::device && o.current(Place::device);
  if (place == o.home || o.current(place)) {
    if (stayed && !o.home_current()) write_back(id, Place::device);
    return place;
  }
  if (!o.at(place).present() &&
      !(place == Place::device ? try_attach(id, true) : attach_below(id, place))) {
    throw StateError("no unit can be freed on the " + std::string(name_of(place)) + " for chunk " +
                     std::to_string(id.chunk) + ", plane " + name_of(id.plane) +
                     ", from NVMe; the plan is smaller than its minimum");
  }
  if (o.version == 0) return place;
  if (place == Place::device) {
    fetch(id);
  } else {
    // What stayed on the device need not come from NVMe, nor go there before its update.
    move(id, stayed ? Place::device : Place::nvme, place);
    note(Issued::fetch, id, o.at(place).units.ids[0]);
  }
  return place;
}

/// Ends `stage`; what changed goes home. A weight on the device stays as a cached copy, and what
/// the device alone has.
void Engine::unstage(ObjId id, Place place, bool changed) {
  table_.unpin(id);
  const Object& o = table_.at(id);
  if (place == o.home) return;
  if (changed) write_back(id, place);
  if (place == Place::device && id.plane == Plane::weight) return;
  if (o.version != 0 && !o.home_current()) return;
  drop_copy(id, place, changed ? Freed::by_transfer : Freed::by_compute);
}

PlaneAddresses Engine::addresses(ChunkId c, const PlanePlaces& places) const {
  PlaneAddresses out;
  out.unit_bytes = shape_.unit_bytes();
  for (size_t p = 0; p < kPlanes; ++p) {
    const UnitList& units = table_.at({c, static_cast<Plane>(p)}).at(places[p]).units;
    for (uint32_t i = 0; i < units.count; ++i) {
      out.units[p][i] = pool(places[p]).address(units.ids[i]);
    }
  }
  return out;
}

std::byte* Engine::address(ObjId id, Place place, uint64_t chunk_offset, size_t elem_size) const {
  const UnitList& units = table_.at(id).at(place).units;
  const uint64_t byte = chunk_offset * elem_size;
  return pool(place).address(units.ids[byte / shape_.unit_bytes()]) + byte % shape_.unit_bytes();
}

}  // namespace strata
