// What each stream did when, in chosen steps, and what compute waited for in all of them.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "offload/program.hpp"
#include "offload/state_shape.hpp"
#include "offload/work_label.hpp"
#include "runtime/ledger.hpp"

namespace strata {

/// Training steps, counted from 0; none: nothing is recorded.
struct StepWindow {
  uint64_t first = 0;
  uint32_t count = 0;
};

/// Work, or a wait, of one stream. Seconds of the backend's clock.
struct TimelineEvent {
  double begin = 0, end = 0;
  WorkLabel label = 0, on_label = 0;
  Resource on = Resource::compute;  // of a wait; the stream itself: for the cores
};

/// Bytes in use when an op was issued.
struct TimelineUsage {
  uint32_t step;  // since the first recorded one
  OpIndex op;
  std::array<std::array<uint64_t, kCategories>, kTiers> bytes;
};

/// Whether there is a copy on the device. Each recorded step begins with a list of those that are.
struct TimelinePresence {
  ObjId object;
  uint32_t step;
  OpIndex op;       // it got its units, or gave them back, before this was issued
  uint32_t serial;  // of the next move or update that was issued
  bool there, listed;
};

/// Told by the engine what it issues and by streams what they did with it. All room is taken when
/// it is made: in a step it allocates nothing and takes no lock. Streams must be idle when it is
/// read.
class Timeline final : public StreamObserver {
 public:
  /// Most steps that can be recorded.
  static constexpr uint32_t kMostSteps = 1000;
  /// Most bytes of room.
  static constexpr size_t kMostBytes = size_t{256} << 20;

  /// Room that such a window takes.
  static size_t bytes_for(const Program&, const StateShape&, uint32_t chunks, StepWindow);
  /// Of a training program. Throws ConfigError when the window has too many steps or takes more
  /// room than `kMostBytes`.
  Timeline(const Program&, const StateShape&, uint32_t chunks, StepWindow);

  // ---- the issuer's
  void begin_step(uint64_t step) noexcept;
  /// What is issued from now on belongs to no training step.
  void end_step() noexcept;
  WorkLabel op(OpIndex) const noexcept;
  WorkLabel move(ObjId, Place from, Place to) noexcept;
  WorkLabel update(ChunkId) noexcept;
  WorkLabel norm() const noexcept;
  void issued(OpIndex, const Ledger&) noexcept;
  void on_device(ObjId, OpIndex, bool there) noexcept;

  // ---- the streams'
  void worked(Resource, WorkLabel, double begin, double end) noexcept override;
  void waited(Resource, WorkLabel, Resource on, WorkLabel on_label, double begin,
              double end) noexcept override;

  // ---- the reader's
  StepWindow window() const noexcept { return window_; }
  std::span<const TimelineEvent> work(Resource) const noexcept;
  std::span<const TimelineEvent> waits(Resource) const noexcept;
  std::span<const TimelineUsage> usage() const noexcept { return usage_; }
  /// In issue order.
  std::span<const TimelinePresence> presence() const noexcept { return presence_; }
  /// Whether all of the window found room.
  bool complete() const noexcept;

  /// Seconds that compute's training steps waited for moves of an object, or for the update of its
  /// chunk (`Plane::weight`), since the start.
  double waited_for(ObjId) const noexcept;

 private:
  struct Track {
    std::unique_ptr<TimelineEvent[]> events;
    size_t capacity = 0;
    size_t size = 0;  // written by one thread at a time
    size_t lost = 0;
  };
  WorkItem item(Work) const noexcept;
  static void add(Track&, const TimelineEvent&) noexcept;
  void add(const TimelinePresence&) noexcept;

  StepWindow window_;
  bool in_step_ = false, recording_ = false;
  uint32_t step_ = 0, serial_ = 0;
  size_t lost_ = 0;  // of the issuer's
  std::array<Track, kResources> work_, waits_;
  std::vector<TimelineUsage> usage_;
  std::vector<TimelinePresence> presence_;
  std::vector<bool> there_;                         // per object
  std::vector<std::atomic<uint64_t>> nanoseconds_;  // per object
};

}  // namespace strata
