#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/errors.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {
namespace {

TEST(ConcurrencyThreadPool, RunsEveryIndexOnce) {
  for (uint32_t threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.threads(), threads);
    for (const uint32_t count : {0u, 1u, 2u, 3u, 7u, 8u, 100u, 1000u}) {
      std::vector<uint32_t> runs(count, 0);
      std::vector<uint32_t> by_worker(threads, 0);
      pool.parallel_for(count, [&](uint32_t i, uint32_t worker) {
        ++runs.at(i);
        ++by_worker.at(worker);
      });
      for (const uint32_t r : runs) ASSERT_EQ(r, 1u) << threads << " threads, " << count;
      ASSERT_EQ(std::accumulate(by_worker.begin(), by_worker.end(), 0u), count);
    }
  }
}

TEST(ConcurrencyThreadPool, ShortLoopsFollowEachOther) {
  ThreadPool pool(3);
  std::vector<uint64_t> sums(4, 0);
  for (uint64_t round = 0; round < 3000; ++round) {
    // Each loop reads what other threads wrote in the loop before.
    std::vector<uint64_t> next(4);
    pool.parallel_for(4, [&](uint32_t i) { next[i] = sums[(i + 1) % 4] + i; });
    sums = next;
  }
  // Every four rounds add 0 + 1 + 2 + 3.
  for (const uint64_t s : sums) EXPECT_EQ(s, 3000u / 4 * 6);
}

TEST(ConcurrencyThreadPool, WorkersWakeFromSleep) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::vector<int> out(64, 0);
    pool.parallel_for(64, [&](uint32_t i) { out[i] = 1; });
    EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 64);
  }
}

TEST(ConcurrencyThreadPool, ThrowsWhatABodyThrewAndGoesOn) {
  for (const uint32_t threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      const auto bad = static_cast<uint32_t>(round * 5);
      try {
        pool.parallel_for(100, [&](uint32_t i) {
          if (i == bad) throw std::out_of_range("index " + std::to_string(i));
        });
        FAIL() << "nothing was thrown";
      } catch (const std::out_of_range& e) {
        EXPECT_EQ(e.what(), "index " + std::to_string(bad));
      }
      std::vector<int> out(50, 0);
      pool.parallel_for(50, [&](uint32_t i) { out[i] = 1; });
      EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 50);
    }
  }
}

TEST(ConcurrencyThreadPool, ThrowsOneOfMany) {
  ThreadPool pool(4);
  EXPECT_THROW(pool.parallel_for(64, [](uint32_t) { throw std::runtime_error("all"); }),
               std::runtime_error);
  EXPECT_NO_THROW(pool.parallel_for(64, [](uint32_t) {}));
}

TEST(ConcurrencyThreadPool, ACallInsideABodyIsAnErrorWithAnyNumberOfThreads) {
  for (const uint32_t threads : {1u, 3u}) {
    ThreadPool pool(threads);
    for (const uint32_t count : {1u, 10u}) {
      EXPECT_THROW(
          pool.parallel_for(count, [&](uint32_t) { pool.parallel_for(1, [](uint32_t) {}); }),
          StateError)
          << threads << " threads, " << count;
    }
    int runs = 0;
    pool.parallel_for(1, [&](uint32_t) { ++runs; });
    EXPECT_EQ(runs, 1);
  }
}

TEST(ConcurrencyThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), ConfigError); }

TEST(ConcurrencyThreadPool, ThreadsTakeTurns) {
  constexpr uint32_t kThreads = 4, kRounds = 100, kCount = 16;
  ThreadPool pool(2);
  std::atomic<int> holders{0};
  std::atomic<int> clashes{0};
  std::vector<std::vector<uint32_t>> sums(kThreads, std::vector<uint32_t>(kCount, 0));
  std::vector<std::thread> callers;
  for (uint32_t t = 0; t < kThreads; ++t) {
    callers.emplace_back([&, t] {
      for (uint32_t round = 0; round < kRounds; ++round) {
        const ThreadPool::Turn turn(pool);
        if (holders.fetch_add(1, std::memory_order_relaxed) != 0) {
          clashes.fetch_add(1, std::memory_order_relaxed);
        }
        pool.parallel_for(kCount, [&](uint32_t i) { sums[t][i] += round; });
        holders.fetch_sub(1, std::memory_order_relaxed);
      }
    });
  }
  for (auto& c : callers) c.join();
  EXPECT_EQ(clashes, 0);
  for (const auto& own : sums) {
    for (const uint32_t s : own) EXPECT_EQ(s, kRounds * (kRounds - 1) / 2);
  }
}

#if defined(__x86_64__)
TEST(ConcurrencyThreadPool, WorkersKeepDenormals) {
  constexpr unsigned kFtzDaz = 0x8040;
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | kFtzDaz);  // new threads inherit it
  ThreadPool pool(4);
  std::vector<unsigned> modes(400);
  std::vector<uint32_t> by(400);
  pool.parallel_for(400, [&](uint32_t i, uint32_t worker) {
    modes[i] = _mm_getcsr() & kFtzDaz;
    by[i] = worker;
  });
  _mm_setcsr(saved);
  for (size_t i = 0; i < modes.size(); ++i) {
    if (by[i] == 0) continue;  // the caller, whose mode is its own
    EXPECT_EQ(modes[i], 0u);
  }
  _mm_setcsr(saved | kFtzDaz);
  use_ieee_denormals();
  EXPECT_EQ(_mm_getcsr() & kFtzDaz, 0u);
  _mm_setcsr(saved);
}
#endif

}  // namespace
}  // namespace strata
