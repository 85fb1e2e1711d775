// What to keep where, as a linear program over (object, home, gap between uses). Pure.
#pragma once
#include <vector>

#include "offload/policy/linear_program.hpp"
#include "offload/policy/step_model.hpp"

namespace strata {

/// Units over each link, or what moving one costs: seconds, or whatever is to be least.
struct LinkUnits {
  double h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;

  LinkUnits& add(const LinkUnits& more, double factor = 1) noexcept {
    h2d += factor * more.h2d;
    d2h += factor * more.d2h;
    nvme_read += factor * more.nvme_read;
    nvme_write += factor * more.nvme_write;
    return *this;
  }
  double dot(const LinkUnits& cost) const noexcept {
    return h2d * cost.h2d + d2h * cost.d2h + nvme_read * cost.nvme_read +
           nvme_write * cost.nvme_write;
  }
};

/// What bounds the time of a step besides transfers.
struct TimeBound {
  double compute_seconds = 0;
  /// Compute, updates and copies between device and host add up.
  bool one_processor = false;
  /// Reads and writes of NVMe add up.
  bool one_drive = false;
  /// Seconds that a unit read beside one written takes less than both one after the other.
  double saved_by_mixing = 0;
  /// Updates wait for a norm: a gradient may be copied before that is known.
  bool norm = false;
  struct Chunk {
    /// Of the update beside compute; and in line with it, where the whole chunk lives on the
    /// device.
    double update = 0, update_on_device = 0;
    /// Compute from the chunk's first use over the op that completes its gradient, or with `norm`
    /// all gradients.
    double span = 0;
  };
  std::vector<Chunk> chunks;  // by id
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
/// gap is not kept. Where updates speculate, gradients are written once more, and what lives on the
/// device is written as the older version. Where updates run beside the host's memory, a chunk is
/// on the device as a whole or not at all, records on the host cost nothing, weights come back
/// after each update, and what is kept on the device until its update goes to the host from there;
/// the host has room for two updates of what lives on NVMe beside homes.
class PlacementProgram {
 public:
  /// `spread`: how much dearer, at most, it makes some chunks than others, so that of equals those
  /// far from each other are kept; 0 for bounds.
  PlacementProgram(const StepModel&, const Room&, const LinkUnits& costs, double spread = 0);

  /// The bound on what transfers cost.
  LinearSolution relax() const;
  /// The bound on the time of a step, where costs are seconds: no resource has less to do, and no
  /// chunk is updated and back sooner.
  /// Infeasible as `relax` is.
  LinearSolution relax_time(const TimeBound&) const;
  /// What a solution of either moves.
  LinkUnits moves_of(const LinearSolution&) const;
  /// With how many units of a chunk on NVMe, at most, and so with how much of the host for staging,
  /// the relaxed program is cheapest.
  uint32_t cheapest_staging() const;
  /// Whole choices, one an object, or none when the room is too small. `most_on_nvme`: units of a
  /// chunk, or the next more with which something is found; `exchanges`: see `exchange`, tries
  /// more.
  std::vector<Choice> round(uint32_t most_on_nvme, bool exchanges = false) const;
  std::vector<Choice> round() const { return round(cheapest_staging()); }
  /// Makes choices cheaper by choosing again for two chunks at a time, all their objects at once,
  /// until no two are left that gain. For updates beside the host's memory, with NVMe below it.
  void exchange(std::vector<Choice>&) const;
  /// As `round`, but the best there is, within `most_solves` linear programs for each amount of
  /// staging. Without `spread`.
  std::vector<Choice> round_exactly(uint32_t most_solves) const;
  /// Keeps what fits, most saved for each unit and slot first; homes stay as they are.
  void keep_what_fits(std::vector<Choice>&) const;
  /// What choices move in a step, by the same rules, and cost.
  LinkUnits moves_of(const std::vector<Choice>&) const;
  double cost_of(const std::vector<Choice>&) const;
  /// What one object costs a step with its home below the device, nothing of it kept.
  double cost_when_streamed(size_t object) const;
  /// Whether they fit the room.
  bool fits(const std::vector<Choice>&) const;
  /// Host units that stage updates: of the chunk with most on NVMe, twice.
  uint32_t staging_units(const std::vector<Choice>&) const;

 private:
  class Filler;
  class Exchanger;
  static constexpr uint32_t kNone = UINT32_MAX;
  /// Variables of one object. `host` is none where all that is below the device is in one tier.
  struct Variables {
    uint32_t device = kNone, host = kNone;
    std::vector<uint32_t> kept;  // by event; none: as `device` says
  };
  /// What an object moves each step by its home.
  struct HomeMoves {
    LinkUnits device, host, nvme;
    const LinkUnits& at(Place home) const {
      return home == Place::device ? device : home == Place::host ? host : nvme;
    }
  };
  /// With every gap that counts kept; and by event, how much more where that gap is not.
  struct Moves {
    HomeMoves kept;
    std::vector<HomeMoves> gaps;
    std::vector<bool> gap_counts;
  };

  Moves moves_of(const StepModel::Object&) const;
  uint32_t add_variable(const LinkUnits& moves, double factor);
  void charge(uint32_t variable, const LinkUnits& moves, double factor);
  void charge_always(const LinkUnits& moves, double factor);
  void add_objects();
  void add_device_rows();
  struct Staged {
    LinearProgram program;
    std::vector<uint32_t> integers;
  };
  Staged staged(uint32_t most_on_nvme) const;
  size_t end_of_chunk(size_t first) const;
  /// The relaxed program with the least value, and for which of `staging_choices`.
  struct Least {
    LinearSolution solution;
    uint32_t most_on_nvme = 0;
  };
  template <class Rows>
  Least least(const Rows& add_rows) const;
  std::vector<uint32_t> staging_choices() const;
  void count_whole_chunks();
  void add_time_rows(LinearProgram&, const TimeBound&) const;
  bool all_fits_on_device() const;
  uint32_t whole_on_device(LinearProgram&, size_t first, size_t end) const;
  bool stages_on_host() const noexcept {
    return !model_.updates_on_device && room_.host != 0 && room_.nvme != 0;
  }
  std::vector<Choice> choices(const LinearSolution&) const;
  void fill(std::vector<Choice>&, bool moves_homes) const;
  LinkUnits moves_of(size_t object, const Choice&) const;
  double cost_of(size_t object, const Choice& c) const { return moves_of(object, c).dot(links_); }
  double held_by(size_t object, const Choice&) const;

  const StepModel& model_;
  Room room_;
  LinkUnits links_;  // costs
  double spread_;
  LinearProgram program_;
  std::vector<Variables> variables_;
  std::vector<Moves> moves_;               // by object
  std::vector<LinkUnits> variable_moves_;  // by variable of the program
  LinkUnits always_;
  std::vector<uint32_t> integers_;
  uint32_t host_row_ = kNone;
  /// How many of the chunks that take most device units, and as many of them, are on the device:
  /// a whole number.
  uint32_t whole_ = kNone;
  /// Slots in which the same objects may be kept, and the variable of the units they take.
  struct Run {
    uint32_t begin, end;
    int64_t room;
    uint32_t variable;
  };
  std::vector<Run> runs_;
};

}  // namespace strata
