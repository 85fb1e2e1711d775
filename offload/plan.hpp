// What a policy decides, and what it costs. Pure data.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "offload/state_shape.hpp"
#include "runtime/ledger.hpp"

namespace strata {

/// Whether a gradient that is complete stays on the device until its chunk's update.
enum class KeepGrad : uint8_t { if_it_fits, no, yes };

/// When updates run, beside what. `automatic`: as the policy says. `none`: at the end of the step,
/// beside nothing. `forward`: in the next step's forward pass. `backward`: as soon as a chunk's
/// gradient is final, which a step-wide value forbids. `speculative`: so all the same, in the
/// expectation that nothing is clipped; else from the older version again, with the value.
enum class OptimizerOverlap : uint8_t { automatic, none, forward, backward, speculative };
const char* name_of(OptimizerOverlap) noexcept;

/// Where a chunk's planes live between uses.
struct ChunkPlacement {
  std::array<Place, kPlanes> homes{};
  /// With a home elsewhere: a copy of the weights stays on the device, refreshed after each update.
  bool keep_weight = false;
  KeepGrad keep_grad = KeepGrad::if_it_fits;
  /// Without a step-wide value: the update waits for a hint, or for the chunk's next use, rather
  /// than come as soon as nothing reads the weights any more.
  bool defers_update = false;
  /// With a step-wide value: the update does not wait for it. The version before stays on NVMe, and
  /// the gradient at home, until it is known.
  bool speculates = false;

  static constexpr ChunkPlacement all(Place home, bool keep_weight = false) noexcept {
    ChunkPlacement c;
    c.homes.fill(home);
    c.keep_weight = keep_weight;
    return c;
  }
  constexpr Place home(Plane p) const noexcept { return homes[static_cast<size_t>(p)]; }
  constexpr bool operator==(const ChunkPlacement&) const = default;
  /// All of it.
  constexpr bool on_device() const noexcept {
    for (const Place p : homes) {
      if (p != Place::device) return false;
    }
    return true;
  }
};

enum class Act : uint8_t { fetch, evict, write_back, update };
const char* name_of(Act) noexcept;

/// A hint: skipped when it is done already, or no unit is free. Never needed for correctness.
struct Action {
  Act act;
  ObjId object;
  OpIndex issue_before;
};

/// How much of each tier a placement takes.
struct MemoryNeed {
  uint32_t fixed_units = 0;   // device windows of tensors that span chunks
  uint32_t home_units = 0;    // device homes outside windows
  uint32_t kept_units = 0;    // weights kept on the device, outside windows
  uint32_t stream_units = 0;  // the largest op's or update's other units, and those for links
  uint32_t host_units = 0;
  uint32_t nvme_units = 0;
  uint64_t non_model_bytes = 0;  // values, workspaces, records

  uint32_t device_units() const noexcept {
    return fixed_units + home_units + kept_units + stream_units;
  }
};

/// What a plan needs of the rest.
struct Plan {
  std::string policy;
  std::vector<ChunkPlacement> chunks;
  /// Units carved out of each tier's arena.
  uint32_t device_units = 0, host_units = 0, nvme_units = 0;
  /// Where planes that live on NVMe come for their update.
  Place staging = Place::device;
  /// Updates run at the end of their step.
  bool updates_at_end = false;
  MemoryNeed need;
  /// One list a program, ascending by `issue_before`.
  std::vector<std::vector<Action>> actions;

  uint64_t hash() const;
  /// Chunks whose updates do not wait for a step-wide value.
  uint32_t speculating_chunks() const noexcept;
};

/// Fixed device units of objects in windows: (chunk, plane) -> first unit.
class WindowMap {
 public:
  WindowMap(const ChunkLayout&, const StateShape&);
  /// First unit of the object's window, or -1.
  int64_t first_unit(ObjId id) const noexcept {
    return id.plane > Plane::grad ? -1 : first_[id.chunk * 2 + static_cast<size_t>(id.plane)];
  }
  uint32_t units() const noexcept { return units_; }

 private:
  std::vector<int64_t> first_;
  uint32_t units_ = 0;
};

/// Bytes the engine keeps on the device beside values: step record and square-sum nodes.
uint64_t record_bytes(const ChunkLayout&, const StateShape&, uint32_t micro_batches);

/// Bytes of the device beside units: records, and the largest program's values and workspaces.
/// If any program trains, `programs[0]` does.
uint64_t non_model_bytes(const ChunkLayout&, const StateShape&,
                         const std::vector<const Program*>& programs);

/// Device units beside what an op needs, so that transfers both ways run beside it.
constexpr uint32_t kLinkUnits = 2;

/// If any program trains, `programs[0]` does. `staging`: host, with room for two updates, or
/// device. What no program trains is staged too, when its weights are loaded. `link_units`: fewer
/// than `kLinkUnits` where a plan counts on each.
MemoryNeed memory_need(const ChunkLayout&, const StateShape&,
                       const std::vector<const Program*>& programs,
                       const std::vector<ChunkPlacement>&, Place staging = Place::device,
                       uint32_t link_units = kLinkUnits);

}  // namespace strata
