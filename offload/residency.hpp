// When copies were on the device: the issuer's order of a timeline laid over its streams' times.
#pragma once
#include <optional>
#include <vector>

#include "offload/timeline.hpp"

namespace strata {

/// Of the recorded steps. Pure.
class Residency {
 public:
  /// From when the copy's transfer, or the op that makes it, began, to when nothing used it any
  /// more; of what was there before the recording or after it, cut there.
  struct Stay {
    ObjId object;
    double begin, end;
  };
  Residency(const Timeline&, const Program&);

  /// By object, then ascending in time.
  const std::vector<Stay>& stays() const noexcept { return stays_; }
  std::optional<double> op_begin(uint32_t step, OpIndex) const noexcept;

 private:
  struct Span {
    double begin = -1, end = -1;  // less than 0: not recorded
    bool known() const noexcept { return begin >= 0; }
  };
  struct Use {
    uint32_t serial;
    Span span;
    bool to_device;
  };
  void read_streams(const Timeline&);
  void follow(const Timeline&);
  void close(ObjId, double at);
  double last_use(const TimelinePresence&) const;
  std::optional<double> arrival(const TimelinePresence&) const;
  const Span& op(uint32_t step, OpIndex i) const { return ops_[step * ops_in_step_ + i]; }
  double step_begin(uint32_t step) const;

  size_t ops_in_step_;
  std::vector<Span> ops_;               // of all steps
  std::vector<std::vector<Use>> uses_;  // moves and updates, per object, by serial
  std::vector<std::vector<OpIndex>> op_uses_;
  std::vector<double> open_;  // per object; less than 0: not there
  double end_ = 0;
  std::vector<Stay> stays_;
};

}  // namespace strata
