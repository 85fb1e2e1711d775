#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "runtime/fence.hpp"

namespace strata {
namespace {

TEST(ConcurrencyFence, EveryWaiterWakesAndSeesWhatTheFenceStandsFor) {
  constexpr int kRounds = 300, kWaiters = 3;
  FenceRing ring;
  std::vector<Fence> fences;
  for (int i = 0; i < kRounds; ++i) {
    fences.push_back(ring.acquire());
    FenceRing::mark_enqueued(fences.back());
  }
  std::vector<int> data(kRounds, 0);
  std::array<int, kWaiters> wrong{};
  std::vector<std::thread> waiters;
  for (int w = 0; w < kWaiters; ++w) {
    waiters.emplace_back([&, w] {
      for (int i = 0; i < kRounds; ++i) {
        fences[i].wait_done();
        if (data[i] != i + 1) ++wrong[w];
      }
    });
  }
  for (int i = 0; i < kRounds; ++i) {
    // Now and then long enough for the waiters to sleep.
    if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    data[i] = i + 1;
    FenceRing::complete(fences[i]);
  }
  for (auto& t : waiters) t.join();
  for (const int n : wrong) EXPECT_EQ(n, 0);
}

TEST(ConcurrencyFence, ASlotIsNotReusedBeforeItsFenceIsDone) {
  FenceRing ring((uint64_t{1} << 30) * FenceRing::kSlots - 100);
  std::vector<Fence> fences;
  for (uint32_t i = 0; i < FenceRing::kSlots; ++i) {
    fences.push_back(ring.acquire());
    FenceRing::mark_enqueued(fences.back());
  }
  int data = 0;
  std::thread worker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    data = 1;
    FenceRing::complete(fences[0]);
  });
  const Fence next = ring.acquire();
  EXPECT_EQ(data, 1);
  EXPECT_EQ(next.slot(), fences[0].slot());
  EXPECT_TRUE(fences[0].done());
  EXPECT_FALSE(fences[1].done());
  EXPECT_FALSE(next.enqueued());
  worker.join();
}

TEST(ConcurrencyFence, AWaiterThatComesALapLateIsNotHeldUp) {
  FenceRing ring;
  const Fence old = ring.acquire();
  FenceRing::mark_enqueued(old);
  std::atomic<bool> go{false};
  std::thread late([&] {
    while (!go.load()) std::this_thread::yield();
    old.wait_done();
  });
  FenceRing::complete(old);
  for (uint32_t i = 1; i < FenceRing::kSlots; ++i) FenceRing::complete(ring.acquire());
  const Fence again = ring.acquire();
  ASSERT_EQ(again.slot(), old.slot());
  go.store(true);
  late.join();
  EXPECT_FALSE(again.done());
}

}  // namespace
}  // namespace strata
