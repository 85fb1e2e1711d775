#include "offload/value_packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace strata {
namespace {

constexpr uint64_t kAlign = 64;

uint64_t aligned(uint64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

bool overlap_in_time(const PackItem& a, const PackItem& b) {
  return a.first <= b.last && b.first <= a.last;
}

bool overlap_in_memory(const PackItem& a, const PackItem& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// Most bytes alive at one op, each rounded up to the alignment.
uint64_t live_peak(const std::vector<PackItem>& items, OpIndex ops) {
  uint64_t peak = 0;
  for (OpIndex i = 0; i < ops; ++i) {
    uint64_t live = 0;
    for (const PackItem& item : items) {
      if (item.first <= i && i <= item.last) live += aligned(item.bytes);
    }
    peak = std::max(peak, live);
  }
  return peak;
}

std::vector<PackItem> random_items(std::mt19937_64& random, OpIndex ops) {
  std::vector<PackItem> items(1 + random() % 120);
  for (PackItem& item : items) {
    // Few sizes repeat often, as layers do; some are not multiples of the alignment, some nothing.
    constexpr uint64_t kSizes[] = {0, 1, 63, 64, 65, 4096, 4096, 10000};
    item.bytes = random() % 4 == 0 ? random() % 5000 : kSizes[random() % 8];
    item.first = static_cast<OpIndex>(random() % ops);
    item.last = std::min<OpIndex>(ops - 1, item.first + static_cast<OpIndex>(random() % 15));
  }
  return items;
}

/// The rule by itself, looking at all that is placed. Returns the bytes needed.
uint64_t pack_slowly(std::vector<PackItem>& items) {
  std::vector<PackItem*> order;
  for (PackItem& item : items) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [](const PackItem* a, const PackItem* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->first < b->first;
  });
  uint64_t peak = 0;
  for (size_t i = 0; i < order.size() && order[i]->bytes != 0; ++i) {
    uint64_t at = 0;
    for (size_t j = 0; j < i;) {
      const bool clear = !overlap_in_time(*order[i], *order[j]) ||
                         at + order[i]->bytes <= order[j]->offset ||
                         order[j]->offset + order[j]->bytes <= at;
      at = clear ? at : aligned(order[j]->offset + order[j]->bytes);
      j = clear ? j + 1 : 0;
    }
    order[i]->offset = at;
    peak = std::max(peak, at + order[i]->bytes);
  }
  return aligned(peak);
}

/// Each layer leaves two values to its backward pass and makes one for the next layer.
std::vector<PackItem> values_of_layers(OpIndex layers) {
  std::vector<PackItem> items;
  for (OpIndex i = 0; i < layers; ++i) {
    items.push_back({4096, i, 2 * layers - i});
    items.push_back({16384, i, 2 * layers - i});
    items.push_back({1000, i, i + 1});
    items.push_back({1000, layers + i, layers + i + 1});
  }
  return items;
}

TEST(ValuePacking, RandomItemsNeverOverlapInTimeAndMemory) {
  constexpr OpIndex kOps = 40;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<PackItem> items = random_items(random, kOps);
    const uint64_t peak = pack_values(items);
    EXPECT_EQ(peak % kAlign, 0u);
    for (size_t i = 0; i < items.size(); ++i) {
      ASSERT_EQ(items[i].offset % kAlign, 0u) << seed;
      ASSERT_LE(items[i].offset + items[i].bytes, peak) << seed;
      for (size_t j = 0; j < i; ++j) {
        if (items[i].bytes == 0 || items[j].bytes == 0) continue;
        ASSERT_FALSE(overlap_in_time(items[i], items[j]) && overlap_in_memory(items[i], items[j]))
            << "seed " << seed << ", items " << j << " and " << i;
      }
    }
    const uint64_t live = live_peak(items, kOps);
    EXPECT_GE(peak, live) << seed;
    EXPECT_LE(peak, live + live / 2) << "wasteful, seed " << seed;
  }
}

TEST(ValuePacking, EachGoesToTheLowestGapThatFits) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<PackItem> items = random_items(random, seed % 2 == 0 ? 40 : 200), slow = items;
    ASSERT_EQ(pack_values(items), pack_slowly(slow)) << seed;
    for (size_t i = 0; i < items.size(); ++i) ASSERT_EQ(items[i].offset, slow[i].offset) << seed;
  }
}

TEST(ValuePacking, TwiceTheLayersAreLittleMoreThanTwiceTheWork) {
  uint64_t looked_at[2];
  for (const OpIndex i : {0u, 1u}) {
    std::vector<PackItem> items = values_of_layers(i == 0 ? 2000 : 4000);
    pack_values(items, &looked_at[i]);
  }
  EXPECT_LT(looked_at[1], looked_at[0] * 5 / 2);
  EXPECT_LT(looked_at[1], 4000u * 4 * 100) << "what lies side by side is one range";
}

TEST(ValuePacking, ThousandsOfGapsAreNotAllLookedAt) {
  // Of random lives over thousands of ops no two begin and end alike.
  constexpr OpIndex kItems = 6000;
  std::mt19937_64 random(7);
  std::vector<PackItem> items;
  for (OpIndex i = 0; i < kItems; ++i) {
    const auto a = static_cast<OpIndex>(random() % kItems);
    const auto b = static_cast<OpIndex>(random() % kItems);
    items.push_back({1 + random() % 1000000, std::min(a, b), std::max(a, b)});
  }
  uint64_t looked_at = 0;
  const uint64_t peak = pack_values(items, &looked_at);
  EXPECT_LT(looked_at, uint64_t{kItems} * 1000);
  EXPECT_LT(peak, live_peak(items, kItems) * 3 / 2);
  std::sort(items.begin(), items.end(), [](auto& a, auto& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t j = i + 1; j < items.size() && overlap_in_memory(items[i], items[j]); ++j) {
      ASSERT_FALSE(overlap_in_time(items[i], items[j])) << i << " and " << j;
    }
  }
}

TEST(ValuePacking, SameItemsGiveSameOffsets) {
  std::mt19937_64 random(5);
  const std::vector<PackItem> items = random_items(random, 30);
  std::vector<PackItem> a = items, b = items;
  EXPECT_EQ(pack_values(a), pack_values(b));
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].offset, b[i].offset);
}

TEST(ValuePacking, ItemsAliveInTurnShareMemory) {
  std::vector<PackItem> items = {{1000, 0, 3}, {1000, 4, 6}, {1000, 7, 7}};
  EXPECT_EQ(pack_values(items), 1024u);
  for (const PackItem& item : items) EXPECT_EQ(item.offset, 0u);
}

TEST(ValuePacking, LastOpIsInclusive) {
  std::vector<PackItem> items = {{64, 0, 3}, {64, 3, 6}};
  EXPECT_EQ(pack_values(items), 128u);
}

TEST(ValuePacking, SmallItemsFillGapsBetweenLargeOnes) {
  // 0 and 1 lie side by side; when 0 ends, 2 and 3 take its place.
  std::vector<PackItem> items = {{4096, 0, 1}, {4096, 0, 4}, {2048, 2, 4}, {2048, 2, 4}};
  EXPECT_EQ(pack_values(items), 8192u);
}

TEST(ValuePacking, NothingTakesNothing) {
  std::vector<PackItem> none;
  EXPECT_EQ(pack_values(none), 0u);
  std::vector<PackItem> empty = {{0, 0, 5}, {0, 2, 3}};
  EXPECT_EQ(pack_values(empty), 0u);
}

}  // namespace
}  // namespace strata
