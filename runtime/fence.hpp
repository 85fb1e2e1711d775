// The only completion object: pending -> enqueued -> done.
#pragma once
#include <atomic>
#include <cstdint>

namespace strata {

/// Shared state behind fences; owned by a stream's ring (see `FenceRing`). One word a fence, so
/// that acquiring one fence orders nothing but what came before that very fence.
struct FenceSlot {
  /// generation << 2 | status, status in {pending, enqueued, done}.
  std::atomic<uint32_t> word{0};
  /// When it was done, in seconds; used by the virtual backend only.
  double time = 0;
  /// The issuer's note of what the fence stands for: see `Stream::record`.
  uint64_t label = 0;
  uint8_t stream = 0;
};

/// A cheap handle to a point in a stream's order. A default fence is done: it means "nothing to
/// wait for".
class Fence {
 public:
  enum Status : uint32_t { kPending = 0, kEnqueued = 1, kDone = 2 };

  Fence() = default;
  Fence(FenceSlot* slot, uint32_t generation) : slot_(slot), generation_(generation) {}

  /// Its event is recorded, so streams may wait on it. Orders nothing, even when it is done: the
  /// issuer asks before each wait, and would carry what it learns to streams that wait for nothing.
  bool enqueued() const noexcept;
  /// True orders the caller after what the fence stands for.
  bool done() const noexcept;
  /// Blocks the calling thread. Workers and flushes only, and the issuer at its run-ahead limit.
  void wait_done() const noexcept;

  FenceSlot* slot() const noexcept { return slot_; }
  uint32_t generation() const noexcept { return generation_; }
  bool operator==(const Fence&) const = default;

 private:
  FenceSlot* slot_ = nullptr;
  uint32_t generation_ = 0;
};

/// A fixed ring of fence slots. `acquire` hands out pending fences in order and reuses a slot only
/// once its earlier fence is done. Issuer thread only; `complete` may run on any thread.
class FenceRing {
 public:
  static constexpr uint32_t kSlots = 4096;

  /// As if `issued` fences had been handed out already: tests begin shortly before counters wrap.
  explicit FenceRing(uint64_t issued = 0);
  ~FenceRing();
  FenceRing(const FenceRing&) = delete;
  FenceRing& operator=(const FenceRing&) = delete;

  Fence acquire();
  /// `acquire` would not block.
  bool next_is_done() const noexcept;
  bool owns(const FenceSlot* s) const noexcept { return s >= slots_ && s < slots_ + kSlots; }
  static void mark_enqueued(const Fence&) noexcept;
  static void complete(const Fence&) noexcept;
  /// As `complete` where nobody can sleep on the fence: no system call.
  static void mark_done(const Fence&) noexcept;

 private:
  FenceSlot* slots_;
  uint64_t next_;
};

}  // namespace strata
