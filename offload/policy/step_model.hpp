// A training step as planning sees it. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "offload/plan.hpp"

namespace strata {

/// What becomes of an object.
struct Choice {
  Place home = Place::host;
  /// By event: it stays on the device until the next one. With its home there all are true.
  std::vector<bool> kept;
  bool operator==(const Choice&) const = default;
};

/// A cycle of slots, the step's ops in order and the chunks' updates between them, and objects that
/// are in use in some of them. Between two uses of an object is a gap, in which it may stay on the
/// device or not; the gap after the last use reaches over the end of the step to the first.
struct StepModel {
  struct Event {
    uint32_t first, last;  // slots, inclusive
    /// The chunk's update, rather than ops.
    bool update = false;
  };
  struct Object {
    ObjId id;
    uint32_t units;
    /// What it takes of the device while it is there: nothing where it has a window of its own.
    uint32_t device_units;
    std::vector<Event> events;  // ascending
    /// Its chunk's update does not wait for the step-wide value: until that is known, a gradient is
    /// kept at home, and what else the update changes as an older version on NVMe.
    bool speculated = false;
  };
  /// Ops of the program.
  OpIndex ops = 0;
  /// Where a slot's op is in the program; an update happens before this op, or at the end.
  std::vector<OpIndex> op_of;
  /// The slot of each chunk's update; UINT32_MAX: it has none.
  std::vector<uint32_t> update_slot;
  std::vector<Object> objects;
  /// Whether updates bring their planes to the device.
  bool updates_on_device = false;
  /// Some object is `speculated`.
  bool speculates = false;

  uint32_t slots() const noexcept { return static_cast<uint32_t>(op_of.size()); }
  /// Slots strictly between event `e` of an object and its next one: [begin, end), which may reach
  /// past `slots()` into the next step.
  struct Gap {
    uint32_t begin, end;
    bool empty() const noexcept { return begin >= end; }
  };
  Gap gap(const Object&, size_t e) const noexcept;
  /// Calls `visit(slot, units)` for each slot in which a choice holds an object on the device
  /// without its being in use.
  template <class Visit>
  void for_each_kept_slot(const Object& o, const Choice& choice, const Visit& visit) const {
    const auto range = [&](uint32_t begin, uint32_t end) {
      for (uint32_t t = begin; t < end; ++t) visit(t < slots() ? t : t - slots(), o.device_units);
    };
    const bool lives_there = choice.home == Place::device;
    for (size_t e = 0; e < o.events.size(); ++e) {
      const Gap g = gap(o, e);
      if (choice.kept[e]) range(g.begin, g.end);
      if (o.events[e].update && !updates_on_device && lives_there) {
        range(o.events[e].first, o.events[e].last + 1);
      }
    }
    if (o.events.empty() && lives_there) range(0, slots());
  }
  /// Device units in use in each slot, whatever is kept.
  std::vector<uint32_t> units_in_use() const;
};

/// Device units of `device` left in each slot beside what is in use and kept; negative where that
/// does not fit.
std::vector<int64_t> free_units(const StepModel&, const std::vector<Choice>&, uint32_t device);

/// `deferred`: by chunk, whether its update waits for the next step's forward pass; with a
/// step-wide value all do. Such an update comes when the chunk before it, in order of first use, is
/// used first; the others come as soon as nothing reads the weights any more, `speculates`:
/// although there is a step-wide value.
StepModel model_step(const ChunkLayout&, const StateShape&, const Program&,
                     const std::vector<bool>& deferred, Place staging, bool speculates = false);

}  // namespace strata
