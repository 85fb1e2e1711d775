// What the engine issues to streams, as labels that observers of streams get back.
#pragma once
#include <cstdint>

#include "chunk/table.hpp"

namespace strata {

/// `other`: nothing of a training step.
enum class Work : uint8_t { other, op, move, update, norm };

/// Packed into one word; fields are cut to what is said beside them.
struct WorkItem {
  Work work = Work::other;
  Plane plane = Plane::weight;  // of what is moved
  Place from = Place::device, to = Place::device;
  uint32_t step = 0;    // 10 bits: since the first recorded one
  uint32_t serial = 0;  // 19 bits: of the moves and updates
  uint32_t index = 0;   // 24 bits: of the op in its program, or the chunk
  bool timed = false;   // as kTimed

  WorkLabel label() const noexcept;
  static WorkItem of(WorkLabel) noexcept;
  ObjId object() const noexcept { return {index, plane}; }
  bool operator==(const WorkItem&) const = default;
};

}  // namespace strata
