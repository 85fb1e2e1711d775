// What to keep where, as a linear program over (object, home, gap between uses). Pure.
#pragma once
#include <vector>

#include "offload/policy/linear_program.hpp"
#include "offload/policy/step_model.hpp"

namespace strata {

/// Seconds, or whatever is to be least, that moving a unit costs.
struct LinkCosts {
  double h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;
};

/// Units that may be used of each tier.
struct Room {
  uint32_t device = 0, host = 0, nvme = 0;
};

/// The linear program of a step. Its relaxed value bounds what the average step of any plan costs;
/// staging is left out, so `Room` holds all units.
///
/// Variables: whether an object's home is the device, or the host (else NVMe); for each gap whether
/// it is kept. Rows: in each slot what is in use and kept fits the device; homes fit host and NVMe.
/// A weight is written once a step unless its home is the device, a gradient after each event whose
/// gap is not kept. Where updates run beside the host's memory, a chunk is on the device as a whole
/// or not at all, records on the host cost nothing, and weights come back after each update.
class PlacementProgram {
 public:
  /// `spread`: how much dearer, at most, it makes some chunks than others, so that of equals those
  /// far from each other are kept; 0 for bounds.
  PlacementProgram(const StepModel&, const Room&, const LinkCosts&, double spread = 0);

  /// The bound.
  LinearSolution relax() const { return solve(program_); }
  /// Whole choices, one an object, or none when the room is too small.
  std::vector<Choice> round() const;
  /// As `round`, but the best there is, within `most_solves` linear programs.
  std::vector<Choice> round_exactly(uint32_t most_solves) const;
  /// Keeps what fits, most saved for each unit and slot first; homes stay as they are.
  void keep_what_fits(std::vector<Choice>&) const;
  /// What choices cost, by the same rules.
  double cost_of(const std::vector<Choice>&) const;
  /// Whether they fit the room.
  bool fits(const std::vector<Choice>&) const;

 private:
  class Filler;
  static constexpr uint32_t kNone = UINT32_MAX;
  /// Variables of one object. `host` is none where all that is below the device is in one tier.
  struct Variables {
    uint32_t device = kNone, host = kNone;
    std::vector<uint32_t> kept;  // by event; none: as `device` says
  };
  /// What an object costs by its home, each step, and for each gap that is not kept.
  struct Costs {
    double host = 0, nvme = 0;
    double gap_host = 0, gap_nvme = 0;
    std::vector<bool> gap_counts;  // by event
  };

  Costs costs_of(const StepModel::Object&) const;
  void add_objects();
  void add_device_rows();
  std::vector<Choice> choices(const LinearSolution&) const;
  void fill(std::vector<Choice>&, bool moves_homes) const;
  double cost_of(size_t object, const Choice&) const;
  double held_by(size_t object, const Choice&) const;

  const StepModel& model_;
  Room room_;
  LinkCosts links_;
  LinearProgram program_;
  std::vector<Variables> variables_;
  std::vector<Costs> costs_;
  std::vector<uint32_t> integers_;
};

}  // namespace strata
