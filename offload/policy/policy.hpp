// Offload policies: pure functions from programs and budgets to plans, and victims.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offload/plan.hpp"
#include "runtime/virtual/virtual_backend.hpp"

namespace strata {

/// A device copy that may be evicted. Issued state only: no clock, no completion.
struct Victim {
  ObjId object;
  uint64_t last_use;  // ops issued before its last use, over the whole run
  uint64_t next_use;  // ops until its next use, in this program or the training step after it
  uint64_t program_end = UINT64_MAX;  // ops until this program ends
};

/// What `auto` makes least: the predicted step, or the bytes moved, each over the rate of its link.
enum class Objective : uint8_t { time, bytes };

struct PlacementInput {
  const ChunkLayout& layout;
  const StateShape& shape;
  const std::vector<const Program*>& programs;
  /// Units that fit each budget beside everything else.
  uint32_t device_units, host_units;
  uint32_t nvme_units = 0;
  /// Updates need a value of the whole step, as with clipping.
  bool stepwide = true;
  VirtualRates rates = {};
  Objective objective = Objective::time;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
};

struct PolicyPlan {
  std::vector<ChunkPlacement> chunks;
  /// One list a program, ascending by `issue_before`.
  std::vector<std::vector<Action>> actions;
  /// Where updates of what lives on NVMe are staged; none: on the host if it has room.
  std::optional<Place> staging = {};
  uint32_t link_units = kLinkUnits;  // as `memory_need` takes it
  /// It keeps to `PlacementInput::overlap`: its hints say when updates come.
  bool obeys_overlap = false;
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Policies of which the one whose plan is predicted to be best is taken instead; none: itself.
  virtual std::vector<std::unique_ptr<Policy>> candidates(const PlacementInput&) const {
    return {};
  }
  /// What who asked for the plan should know about how it came about; empty: nothing.
  virtual std::string remark(const PlacementInput&) const { return {}; }
  /// All that is decided beforehand.
  virtual PolicyPlan plan(const PlacementInput&) const;
  /// The full specification, e.g. `static:w=0.5,o=0.25`.
  virtual std::string name() const = 0;
  virtual std::vector<ChunkPlacement> place(const PlacementInput&) const = 0;
  /// The placement that needs the least of the device: what the smallest budgets are found from.
  virtual std::vector<ChunkPlacement> place_least(const PlacementInput& in) const {
    return place(in);
  }
  /// Whether everything streams that can: with less of the host more of it lives on the device, and
  /// no other policy needs less of both.
  virtual bool streams() const noexcept { return false; }
  /// Planned hints for one program; none for reactive policies.
  virtual std::vector<Action> actions(const PlacementInput&, const Program&,
                                      const std::vector<ChunkPlacement>&) const;
  /// Index of the copy to evict; `victims` is not empty. Planned policies evict what is used last.
  virtual size_t choose_victim(std::span<const Victim> victims) const;
  /// Ops to look ahead for prefetches into free units and for pending updates; 0: none.
  virtual uint32_t look_ahead() const noexcept { return 0; }
  /// Whether such a prefetch may evict what is used later than it.
  virtual bool evicts_for_prefetch() const noexcept { return false; }
  /// Copies prefetched that may wait for their first use at once.
  virtual uint32_t prefetch_limit() const noexcept { return UINT32_MAX; }
  /// As where ops and transfers share a stream: a fetch begins once the op before it is done, and
  /// prefetches follow what the op itself needs. No update runs before it is needed.
  virtual bool fetches_in_order() const noexcept { return false; }
};

/// Units of all planes of the largest chunk.
uint32_t largest_chunk(const PlacementInput&);
/// Whether the host has room for more than a few chunks, so that some of it is left to stage
/// updates of what lives on NVMe.
bool leaves_room_to_stage(const PlacementInput&);

/// Of chunks that are not on the device, moves the planes that do not fit the host to NVMe, if
/// there is any: those used least often first.
void settle_below_device(const PlacementInput&, std::vector<ChunkPlacement>&);

/// Homes of policies that stream everything: on the host as far as it reaches, then on NVMe, the
/// first chunks' on the device beyond.
std::vector<ChunkPlacement> place_below_device(const PlacementInput&);

struct PolicyInfo {
  std::string_view name;
  std::string_view parameters;
  std::string_view description;
};

/// Every policy `make_policy` knows, in the order they are listed.
std::span<const PolicyInfo> policies();

/// Parses `name` or `name:key=value,...`. Throws ConfigError naming what is wrong.
std::unique_ptr<Policy> make_policy(std::string_view spec);

}  // namespace strata
