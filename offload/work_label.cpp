#include "offload/work_label.hpp"

namespace strata {
namespace {

/// Fields from the lowest bit on.
constexpr int kIndexBits = 24, kSerialBits = 19, kStepBits = 10, kPlaceBits = 2, kPlaneBits = 3,
              kWorkBits = 3;
static_assert(kIndexBits + kSerialBits + kStepBits + 2 * kPlaceBits + kPlaneBits + kWorkBits == 63);

class Fields {
 public:
  explicit Fields(WorkLabel word = 0) : word_(word) {}
  void put(uint64_t value, int bits) noexcept {
    word_ |= (value & ((uint64_t{1} << bits) - 1)) << at_;
    at_ += bits;
  }
  uint32_t take(int bits) noexcept {
    const uint64_t value = (word_ >> at_) & ((uint64_t{1} << bits) - 1);
    at_ += bits;
    return static_cast<uint32_t>(value);
  }
  WorkLabel word() const noexcept { return word_; }

 private:
  WorkLabel word_;
  int at_ = 0;
};

}  // namespace

WorkLabel WorkItem::label() const noexcept {
  Fields f;
  f.put(index, kIndexBits);
  f.put(serial, kSerialBits);
  f.put(step, kStepBits);
  f.put(static_cast<uint64_t>(from), kPlaceBits);
  f.put(static_cast<uint64_t>(to), kPlaceBits);
  f.put(static_cast<uint64_t>(plane), kPlaneBits);
  f.put(static_cast<uint64_t>(work), kWorkBits);
  return f.word() | (timed ? kTimed : 0);
}

WorkItem WorkItem::of(WorkLabel label) noexcept {
  Fields f(label);
  WorkItem w;
  w.index = f.take(kIndexBits);
  w.serial = f.take(kSerialBits);
  w.step = f.take(kStepBits);
  w.from = static_cast<Place>(f.take(kPlaceBits));
  w.to = static_cast<Place>(f.take(kPlaceBits));
  w.plane = static_cast<Plane>(f.take(kPlaneBits));
  w.work = static_cast<Work>(f.take(kWorkBits));
  w.timed = (label & kTimed) != 0;
  return w;
}

}  // namespace strata
