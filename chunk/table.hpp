// Where each copy of each object is. State only: it moves nothing and knows no stream.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "chunk/layout.hpp"
#include "runtime/unit_pool.hpp"

namespace strata {

/// Where a copy can be.
enum class Place : uint8_t { device, host, nvme };
constexpr size_t kPlaces = 3;
constexpr Place kAllPlaces[] = {Place::device, Place::host, Place::nvme};
const char* name_of(Place) noexcept;
constexpr Tier tier_of(Place p) noexcept { return static_cast<Tier>(p); }

/// One plane of one chunk.
struct ObjId {
  ChunkId chunk = 0;
  Plane plane = Plane::weight;
  bool operator==(const ObjId&) const = default;
};

/// The units of a copy, possibly scattered. A plane has at most two: fp32 planes of bf16 chunks.
struct UnitList {
  static constexpr uint32_t kMax = 2;
  std::array<UnitId, kMax> ids{};
  uint32_t count = 0;
};

/// Clean and stale are derived from versions, never stored.
struct Copy {
  UnitList units;
  uint64_t version = 0;  // 0: holds nothing
  bool present() const noexcept { return units.count != 0; }
};

struct Object {
  /// Of the newest content; 0: none (a gradient between steps).
  uint64_t version = 0;
  /// Highest version ever, so that versions are never reused.
  uint64_t last_version = 0;
  Place home = Place::host;
  bool exists = false;
  uint16_t pins = 0;
  std::array<Copy, kPlaces> copies;

  const Copy& at(Place p) const noexcept { return copies[static_cast<size_t>(p)]; }
  bool current(Place p) const noexcept {
    return at(p).present() && version != 0 && at(p).version == version;
  }
  bool home_current() const noexcept { return current(home); }
};

/// All objects of a layout. Illegal transitions throw StateError with the object's recent history.
class ChunkTable {
 public:
  explicit ChunkTable(uint32_t chunks);

  void create(ObjId, Place home);
  const Object& at(ObjId id) const noexcept { return objects_[index(id)]; }
  uint32_t chunks() const noexcept { return static_cast<uint32_t>(objects_.size() / kPlanes); }

  /// Gives the object units at a place; they hold nothing yet.
  void attach(ObjId, Place, const UnitList&);
  /// The newest content arrived in the copy.
  void landed(ObjId, Place);
  /// The copy was changed: it alone is current now.
  void written(ObjId, Place);
  /// Swaps the units of a copy, which is not current, for others: those of another version.
  void exchange(ObjId, Place, UnitList&);
  /// The content is not needed any more; copies stay attached but hold nothing.
  void kill(ObjId);
  /// Detaches a copy and returns its units. Not the home, not pinned, not the only current copy.
  UnitList drop(ObjId, Place);
  /// Detaches any copy, for tear-down.
  UnitList detach(ObjId, Place);
  void pin(ObjId);
  void unpin(ObjId);

  /// Recent events of one object, oldest first, one line each.
  std::string history(ObjId) const;

 private:
  enum class Event : uint8_t {
    create,
    attach,
    landed,
    written,
    exchange,
    kill,
    drop,
    detach,
    pin,
    unpin
  };
  struct Entry {
    ObjId id;
    Event event;
    Place place;
    uint64_t version;
  };
  static constexpr size_t kHistory = 512;

  static size_t index(ObjId id) noexcept {
    return id.chunk * kPlanes + static_cast<size_t>(id.plane);
  }
  Object& get(ObjId id) noexcept { return objects_[index(id)]; }
  void note(ObjId, Event, Place);
  [[noreturn]] void fail(ObjId, const char* what, Place) const;

  std::vector<Object> objects_;
  std::vector<Entry> history_;
  uint64_t events_ = 0;
};

}  // namespace strata
