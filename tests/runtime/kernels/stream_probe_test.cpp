#include "runtime/kernels/stream_probe.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/blocks.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata::kernels {
namespace {

using namespace testing;

/// All arrays of some slices in one buffer: bytes that belong to none are seen to change too.
struct Memory {
  static constexpr uint64_t kSizes[] = {33000, 0, 1, 31, 32, 70001};

  /// `skew` bytes off a cache line, which is a whole number of elements of every array.
  Memory(DType type, size_t skew) : type(type) {
    size_t at = 64;
    const auto take = [&](size_t bytes) {
      const size_t begin = at + skew;
      at = (begin + bytes + 127) / 64 * 64;
      return begin;
    };
    std::vector<std::array<size_t, 5>> places;
    for (const uint64_t n : kSizes) {
      places.push_back({take(n * size_of(type)), type == DType::bf16 ? take(n * 2) : 0,
                        take(n * size_of(type)), take(n * 4), take(n * 4)});
    }
    size = at;
    bytes.resize(size + 64);
    base = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
    std::mt19937_64 random(7);
    for (size_t i = 0; i < size; ++i) base[i] = static_cast<uint8_t>(random() >> 32);
    for (size_t i = 0; i < places.size(); ++i) {
      const auto& p = places[i];
      slices.push_back({base + p[0], p[1] == 0 ? nullptr : reinterpret_cast<uint16_t*>(base + p[1]),
                        base + p[2], reinterpret_cast<float*>(base + p[3]),
                        reinterpret_cast<float*>(base + p[4]), kSizes[i], 0});
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <class T, class F>
  static void each(void* array, uint64_t n, F&& f) {
    for (uint64_t i = 0; i < n; ++i) {
      T x;
      std::memcpy(&x, static_cast<uint8_t*>(array) + i * sizeof(T), sizeof x);
      x = static_cast<T>(f(x, i));
      std::memcpy(static_cast<uint8_t*>(array) + i * sizeof(T), &x, sizeof x);
    }
  }
  template <class T>
  void want(uint32_t key) {
    for (const AdamWSlice& s : slices) {
      each<T>(s.weight, s.n, [&](T x, uint64_t i) {
        T g;
        std::memcpy(&g, static_cast<const uint8_t*>(s.grad) + i * sizeof(T), sizeof g);
        return x + (g & key);
      });
      const auto add = [key](auto x, uint64_t) { return x + key; };
      if (s.remainder != nullptr) each<uint16_t>(s.remainder, s.n, add);
      each<uint32_t>(s.m, s.n, add);
      each<uint32_t>(s.v, s.n, add);
    }
  }

  DType type;
  std::vector<uint8_t> bytes;
  uint8_t* base = nullptr;  // the first line in it
  size_t size = 0;
  std::vector<AdamWSlice> slices;
};

class StreamProbe : public ::testing::TestWithParam<std::tuple<DType, StreamStores>> {};

INSTANTIATE_TEST_SUITE_P(Kinds, StreamProbe,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16),
                                            ::testing::Values(StreamStores::temporal,
                                                              StreamStores::non_temporal,
                                                              StreamStores::prefetched)));

TEST_P(StreamProbe, TouchesEveryElementOnceAndNothingElse) {
  const auto [type, stores] = GetParam();
  for (const size_t skew : {0u, 4u, 32u}) {
    for (const uint32_t key : {0x9e3779b9u, 0u}) {
      Memory want(type, skew);
      if (type == DType::f32) {
        want.want<uint32_t>(key);
      } else {
        want.want<uint16_t>(key);
      }
      ThreadPool pool(3);
      const ThreadPool::Turn turn(pool);
      for_each_target([&, stores = stores, type = type] {
        Memory got(type, skew);
        stream_in_place(pool, got.slices, type, key, stores);
        ASSERT_EQ(std::memcmp(want.base, got.base, want.size), 0) << skew << " " << key;
      });
    }
  }
}

TEST(Blocks, TurnsAreAPermutationOfAdjacentShares) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    for (uint32_t count = 0; count < 40; ++count) {
      std::vector<uint32_t> seen;
      for (uint32_t i = 0; i < count; ++i) {
        seen.push_back(block_of_turn(i, count, threads));
        if (i < threads) continue;
        EXPECT_EQ(seen[i], seen[i - threads] + 1);
      }
      std::sort(seen.begin(), seen.end());
      for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(seen[i], i) << count << " " << threads;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
