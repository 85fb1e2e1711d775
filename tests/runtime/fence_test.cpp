#include "runtime/fence.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

void finish(const Fence& f) {
  FenceRing::mark_enqueued(f);
  FenceRing::complete(f);
}

TEST(Fence, ADefaultFenceIsDone) {
  const Fence f;
  EXPECT_TRUE(f.enqueued());
  EXPECT_TRUE(f.done());
  f.wait_done();
}

TEST(Fence, GoesFromPendingToEnqueuedToDone) {
  FenceRing ring;
  const Fence f = ring.acquire();
  EXPECT_FALSE(f.enqueued());
  EXPECT_FALSE(f.done());
  FenceRing::mark_enqueued(f);
  EXPECT_TRUE(f.enqueued());
  EXPECT_FALSE(f.done());
  FenceRing::complete(f);
  EXPECT_TRUE(f.enqueued());
  EXPECT_TRUE(f.done());
  f.wait_done();
}

TEST(Fence, MarkDoneIsEnough) {
  FenceRing ring;
  const Fence f = ring.acquire();
  FenceRing::mark_done(f);
  EXPECT_TRUE(f.enqueued());
  EXPECT_TRUE(f.done());
}

TEST(Fence, OneFenceDoesNotAffectAnother) {
  FenceRing ring;
  const Fence a = ring.acquire(), b = ring.acquire();
  EXPECT_NE(a, b);
  finish(b);
  EXPECT_FALSE(a.enqueued());
  EXPECT_TRUE(b.done());
}

/// Three times round the ring: a fence of an earlier lap stays done whatever its slot does next.
void check_laps(FenceRing& ring) {
  std::vector<Fence> before;
  for (int lap = 0; lap < 3; ++lap) {
    std::vector<Fence> fences;
    for (uint32_t i = 0; i < FenceRing::kSlots; ++i) {
      const Fence f = ring.acquire();
      ASSERT_FALSE(f.enqueued()) << "lap " << lap << ", fence " << i;
      if (!before.empty()) {
        ASSERT_EQ(f.slot(), before[i].slot());
        ASSERT_NE(f, before[i]);
        ASSERT_TRUE(before[i].done());
      }
      FenceRing::mark_enqueued(f);
      ASSERT_FALSE(f.done());
      FenceRing::complete(f);
      ASSERT_TRUE(f.done());
      fences.push_back(f);
    }
    before = fences;
  }
}

TEST(Fence, SlotsAreReusedLapAfterLap) {
  FenceRing ring;
  check_laps(ring);
}

TEST(Fence, GenerationsWrap) {
  // 30 bits of generation for laps of kSlots fences.
  constexpr uint64_t kAll = (uint64_t{1} << 30) * FenceRing::kSlots;
  for (const uint64_t before : {uint64_t{1}, uint64_t{FenceRing::kSlots}, uint64_t{6000}}) {
    FenceRing ring(kAll - before);
    check_laps(ring);
  }
  FenceRing beyond(kAll + 5);
  check_laps(beyond);
}

}  // namespace
}  // namespace strata
