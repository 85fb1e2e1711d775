#include "offload/timeline.hpp"

#include <fmt/format.h>

#include "runtime/errors.hpp"

namespace strata {
namespace {

size_t index_of(ObjId id) noexcept { return id.chunk * kPlanes + static_cast<size_t>(id.plane); }

/// Room for what a step records. Generous: a plan decides how often objects move, and a move is two
/// or three records of a stream.
struct Room {
  size_t work = 0, waits = 0;  // of each stream
  size_t usage = 0, presence = 0;

  Room(const Program& p, const StateShape& shape, uint32_t chunks, StepWindow w) {
    size_t objects = 0, uses = 0;
    for (ChunkId c = 0; c < chunks; ++c) {
      for (size_t plane = 0; plane < kPlanes; ++plane) {
        objects += shape.units({c, static_cast<Plane>(plane)}) != 0;
      }
    }
    for (const ProgramOp& op : p.ops()) uses += op.uses.size();
    // One step more: what was issued in the window may be done after it.
    const size_t steps = size_t{w.count} + 1;
    work = steps * (p.ops().size() + 2 * uses + 4 * objects + 16);
    waits = steps * (6 * p.ops().size() + 2 * uses + 4 * objects + 16);
    usage = w.count * p.ops().size();
    presence = steps * (2 * uses + 3 * objects);
  }
  size_t bytes() const noexcept {
    return kResources * (work + waits) * sizeof(TimelineEvent) + usage * sizeof(TimelineUsage) +
           presence * sizeof(TimelinePresence);
  }
};

}  // namespace

size_t Timeline::bytes_for(const Program& p, const StateShape& shape, uint32_t chunks,
                           StepWindow w) {
  return w.count == 0 ? 0 : Room(p, shape, chunks, w).bytes();
}

Timeline::Timeline(const Program& p, const StateShape& shape, uint32_t chunks, StepWindow w)
    : window_(w), there_(chunks * kPlanes), nanoseconds_(chunks * kPlanes) {
  if (w.count == 0) return;
  const Room room(p, shape, chunks, w);
  if (w.count > kMostSteps || room.bytes() > kMostBytes) {
    const size_t one = Room(p, shape, chunks, {0, 1}).bytes();
    throw ConfigError(fmt::format(
        "recording {} steps takes {} MiB, more than the {} MiB or {} steps allowed; a step of this "
        "model takes about {} KiB, so record fewer",
        w.count, room.bytes() >> 20, kMostBytes >> 20, kMostSteps, one >> 10));
  }
  const auto take = [](Track& t, size_t events) {
    t.events = std::make_unique<TimelineEvent[]>(events);
    t.capacity = events;
  };
  for (Track& t : work_) take(t, room.work);
  for (Track& t : waits_) take(t, room.waits);
  usage_.reserve(room.usage);
  presence_.reserve(room.presence);
}

void Timeline::begin_step(uint64_t step) noexcept {
  in_step_ = true;
  recording_ = step >= window_.first && step - window_.first < window_.count;
  step_ = recording_ ? static_cast<uint32_t>(step - window_.first) : 0;
  for (size_t i = 0; recording_ && i < there_.size(); ++i) {
    const ObjId id{static_cast<ChunkId>(i / kPlanes), static_cast<Plane>(i % kPlanes)};
    if (there_[i]) add({id, step_, 0, serial_, true, true});
  }
}

void Timeline::end_step() noexcept { in_step_ = recording_ = false; }

WorkItem Timeline::item(Work work) const noexcept {
  WorkItem w;
  if (!in_step_) return w;
  w.work = work;
  w.step = step_;
  w.serial = serial_;
  w.timed = recording_;
  return w;
}

WorkLabel Timeline::op(OpIndex op) const noexcept {
  WorkItem w = item(Work::op);
  w.index = in_step_ ? op : 0;
  return w.label();
}

WorkLabel Timeline::move(ObjId id, Place from, Place to) noexcept {
  WorkItem w = item(Work::move);
  w.plane = id.plane;
  w.from = from;
  w.to = to;
  w.index = id.chunk;
  ++serial_;
  return w.label();
}

WorkLabel Timeline::update(ChunkId chunk) noexcept {
  WorkItem w = item(Work::update);
  w.index = chunk;
  ++serial_;
  return w.label();
}

WorkLabel Timeline::norm() const noexcept { return item(Work::norm).label(); }

void Timeline::issued(OpIndex op, const Ledger& ledger) noexcept {
  if (!recording_) return;
  if (usage_.size() == usage_.capacity()) {
    ++lost_;
    return;
  }
  TimelineUsage& u = usage_.emplace_back();
  u.step = step_;
  u.op = op;
  for (size_t t = 0; t < kTiers; ++t) {
    for (size_t c = 0; c < kCategories; ++c) {
      u.bytes[t][c] = ledger.now(static_cast<Tier>(t), static_cast<Category>(c));
    }
  }
}

void Timeline::on_device(ObjId id, OpIndex op, bool there) noexcept {
  there_[index_of(id)] = there;
  if (recording_) add({id, step_, op, serial_, there, false});
}

void Timeline::add(const TimelinePresence& p) noexcept {
  if (presence_.size() == presence_.capacity()) {
    ++lost_;
  } else {
    presence_.push_back(p);
  }
}

void Timeline::add(Track& t, const TimelineEvent& e) noexcept {
  if (t.size == t.capacity) {
    ++t.lost;
    return;
  }
  t.events[t.size++] = e;
}

void Timeline::worked(Resource r, WorkLabel label, double begin, double end) noexcept {
  Track& t = work_[static_cast<size_t>(r)];
  // The launches of an op, the units of a move.
  if (t.size != 0 && t.events[t.size - 1].label == label) {
    t.events[t.size - 1].end = end;
  } else {
    add(t, {begin, end, label, 0, r});
  }
}

void Timeline::waited(Resource r, WorkLabel label, Resource on, WorkLabel on_label, double begin,
                      double end) noexcept {
  if (r == Resource::compute && on != r && label != 0) {
    const WorkItem w = WorkItem::of(on_label);
    if (w.work == Work::move || w.work == Work::update) {
      nanoseconds_[index_of(w.object())].fetch_add(static_cast<uint64_t>((end - begin) * 1e9),
                                                   std::memory_order_relaxed);
    }
  }
  if ((label & kTimed) != 0) {
    add(waits_[static_cast<size_t>(r)], {begin, end, label, on_label, on});
  }
}

std::span<const TimelineEvent> Timeline::work(Resource r) const noexcept {
  const Track& t = work_[static_cast<size_t>(r)];
  return {t.events.get(), t.size};
}

std::span<const TimelineEvent> Timeline::waits(Resource r) const noexcept {
  const Track& t = waits_[static_cast<size_t>(r)];
  return {t.events.get(), t.size};
}

bool Timeline::complete() const noexcept {
  size_t lost = lost_;
  for (size_t r = 0; r < kResources; ++r) lost += work_[r].lost + waits_[r].lost;
  return lost == 0;
}

double Timeline::waited_for(ObjId id) const noexcept {
  return static_cast<double>(nanoseconds_[index_of(id)].load(std::memory_order_relaxed)) * 1e-9;
}

}  // namespace strata
