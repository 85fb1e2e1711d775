#include "runtime/fence.hpp"

#include "runtime/futex.hpp"

namespace strata {
namespace {

constexpr uint32_t kGenerationMask = 0x3fffffff;

uint32_t word_of(uint32_t generation, Fence::Status status) noexcept {
  return (generation << 2) | status;
}

/// A later generation in the slot means this fence was done long ago.
bool reached(uint32_t word, uint32_t generation, Fence::Status status) noexcept {
  return (word >> 2) != generation || (word & 3u) >= status;
}

}  // namespace

bool Fence::enqueued() const noexcept {
  return slot_ == nullptr ||
         reached(slot_->word.load(std::memory_order_relaxed), generation_, kEnqueued);
}

bool Fence::done() const noexcept {
  return slot_ == nullptr ||
         reached(slot_->word.load(std::memory_order_acquire), generation_, kDone);
}

void Fence::wait_done() const noexcept {
  if (slot_ == nullptr) return;
  for (int spin = 0; spin < 200; ++spin) {
    if (done()) return;
    cpu_relax();
  }
  for (;;) {
    const uint32_t word = slot_->word.load(std::memory_order_acquire);
    if (reached(word, generation_, kDone)) return;
    futex_wait(slot_->word, word);
  }
}

FenceRing::FenceRing(uint64_t issued) : slots_(new FenceSlot[kSlots]), next_(issued) {
  const auto generation = static_cast<uint32_t>(issued / kSlots) & kGenerationMask;
  for (uint32_t i = 0; i < kSlots; ++i) {
    slots_[i].word.store(word_of(generation, Fence::kDone), std::memory_order_relaxed);
  }
}

FenceRing::~FenceRing() { delete[] slots_; }

Fence FenceRing::acquire() {
  FenceSlot& slot = slots_[next_ % kSlots];
  const auto generation = static_cast<uint32_t>(next_ / kSlots + 1) & kGenerationMask;
  ++next_;
  Fence(&slot, slot.word.load(std::memory_order_relaxed) >> 2).wait_done();
  slot.word.store(word_of(generation, Fence::kPending), std::memory_order_release);
  return {&slot, generation};
}

bool FenceRing::next_is_done() const noexcept {
  FenceSlot& slot = slots_[next_ % kSlots];
  return Fence(&slot, slot.word.load(std::memory_order_relaxed) >> 2).done();
}

void FenceRing::mark_enqueued(const Fence& f) noexcept {
  f.slot()->word.store(word_of(f.generation(), Fence::kEnqueued), std::memory_order_release);
}

void FenceRing::complete(const Fence& f) noexcept {
  mark_done(f);
  futex_wake_all(f.slot()->word);
}

void FenceRing::mark_done(const Fence& f) noexcept {
  f.slot()->word.store(word_of(f.generation(), Fence::kDone), std::memory_order_release);
}

}  // namespace strata
