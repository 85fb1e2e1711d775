#include "chunk/table.hpp"

#include <algorithm>
#include <utility>

#include "runtime/errors.hpp"

namespace strata {

const char* name_of(Place p) noexcept { return name_of(tier_of(p)); }

ChunkTable::ChunkTable(uint32_t chunks) : objects_(chunks * kPlanes), history_(kHistory) {}

void ChunkTable::note(ObjId id, Event e, Place p) {
  history_[events_++ % kHistory] = {id, e, p, get(id).version};
}

void ChunkTable::fail(ObjId id, const char* what, Place p) const {
  throw StateError(std::string(what) + ": chunk " + std::to_string(id.chunk) + ", plane " +
                   name_of(id.plane) + ", " + name_of(p) + "; recent history:\n" + history(id));
}

std::string ChunkTable::history(ObjId id) const {
  constexpr const char* kNames[] = {"create", "attach", "landed", "written", "exchange",
                                    "kill",   "drop",   "detach", "pin",     "unpin"};
  std::string out;
  for (uint64_t i = events_ - std::min<uint64_t>(events_, kHistory); i < events_; ++i) {
    const Entry& e = history_[i % kHistory];
    if (!(e.id == id)) continue;
    out += "  #" + std::to_string(i) + " " + kNames[static_cast<size_t>(e.event)] + " " +
           name_of(e.place) + " version " + std::to_string(e.version) + "\n";
  }
  return out;
}

void ChunkTable::create(ObjId id, Place home) {
  Object& o = get(id);
  if (o.exists) fail(id, "an object was created twice", home);
  o.exists = true;
  o.home = home;
  note(id, Event::create, home);
}

void ChunkTable::attach(ObjId id, Place p, const UnitList& units) {
  Object& o = get(id);
  if (!o.exists) fail(id, "units attached to an object that was not created", p);
  if (o.at(p).present()) fail(id, "units attached where a copy is", p);
  if (units.count == 0 || units.count > UnitList::kMax) fail(id, "attached without units", p);
  o.copies[static_cast<size_t>(p)] = {units, 0};
  note(id, Event::attach, p);
}

void ChunkTable::landed(ObjId id, Place p) {
  Object& o = get(id);
  if (!o.at(p).present() || o.version == 0) fail(id, "nothing can land", p);
  o.copies[static_cast<size_t>(p)].version = o.version;
  note(id, Event::landed, p);
}

void ChunkTable::written(ObjId id, Place p) {
  Object& o = get(id);
  if (!o.at(p).present()) fail(id, "a copy that is not there was written", p);
  o.version = ++o.last_version;
  o.copies[static_cast<size_t>(p)].version = o.version;
  note(id, Event::written, p);
}

void ChunkTable::exchange(ObjId id, Place p, UnitList& units) {
  Object& o = get(id);
  const UnitList& mine = o.at(p).units;
  if (mine.count == 0 || mine.count != units.count) fail(id, "units exchanged for none alike", p);
  const auto keeps = [&](Place other) { return other != p && o.current(other); };
  if (o.current(p) && std::none_of(std::begin(kAllPlaces), std::end(kAllPlaces), keeps)) {
    fail(id, "the only current copy was exchanged", p);
  }
  Copy& copy = o.copies[static_cast<size_t>(p)];
  copy.version = 0;
  std::swap(copy.units, units);
  note(id, Event::exchange, p);
}

void ChunkTable::kill(ObjId id) {
  Object& o = get(id);
  if (!o.exists) fail(id, "an object that was not created was killed", o.home);
  o.version = 0;
  for (Copy& c : o.copies) c.version = 0;
  note(id, Event::kill, o.home);
}

UnitList ChunkTable::drop(ObjId id, Place p) {
  Object& o = get(id);
  if (!o.at(p).present()) fail(id, "a copy that is not there was dropped", p);
  if (o.pins != 0) fail(id, "a pinned object was dropped", p);
  if (o.home == p) fail(id, "the home copy was dropped", p);
  const auto keeps = [&](Place other) { return other != p && o.current(other); };
  if (o.current(p) && std::none_of(std::begin(kAllPlaces), std::end(kAllPlaces), keeps)) {
    fail(id, "the only current copy was dropped", p);
  }
  note(id, Event::drop, p);
  return std::exchange(o.copies[static_cast<size_t>(p)], Copy{}).units;
}

UnitList ChunkTable::detach(ObjId id, Place p) {
  note(id, Event::detach, p);
  return std::exchange(get(id).copies[static_cast<size_t>(p)], Copy{}).units;
}

void ChunkTable::pin(ObjId id) {
  Object& o = get(id);
  if (!o.exists || o.pins == UINT16_MAX) fail(id, "cannot be pinned", Place::device);
  ++o.pins;
  note(id, Event::pin, Place::device);
}

void ChunkTable::unpin(ObjId id) {
  Object& o = get(id);
  if (o.pins == 0) fail(id, "unpinned more often than pinned", Place::device);
  --o.pins;
  note(id, Event::unpin, Place::device);
}

}  // namespace strata
