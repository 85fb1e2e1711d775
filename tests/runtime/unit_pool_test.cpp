#include "runtime/unit_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr size_t kUnit = 4096;

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const StateError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(UnitPool, GrantsTheUnitReleasedLongestAgo) {
  Ledger ledger({10 * kUnit, 0, 0});
  UnitPool pool(Tier::device, nullptr, kUnit, 3, 0, ledger);
  for (UnitId u = 0; u < 3; ++u) EXPECT_EQ(pool.try_acquire(Category::weight), u);
  EXPECT_EQ(pool.try_acquire(Category::weight), std::nullopt);
  for (const UnitId u : {1u, 2u, 0u}) pool.release(u);
  EXPECT_EQ(pool.free_units(), 3u);
  for (const UnitId u : {1u, 2u, 0u}) EXPECT_EQ(pool.try_acquire(Category::grad), u);
  EXPECT_EQ(ledger.now(Tier::device, Category::grad), 3 * kUnit);
}

TEST(UnitPool, ComputeCanPassOverUnitsThatTransfersStillRead) {
  Ledger ledger({10 * kUnit, 0, 0});
  UnitPool pool(Tier::device, nullptr, kUnit, 4, 0, ledger);
  const auto release_all = [&] {
    pool.release(1, Freed::by_transfer);
    pool.release(3);
    pool.release(0, Freed::by_transfer);
    pool.release(2);
  };
  for (UnitId u = 0; u < 4; ++u) ASSERT_TRUE(pool.try_acquire(Category::weight));
  release_all();
  for (const UnitId u : {3u, 2u, 1u, 0u}) {
    EXPECT_EQ(pool.try_acquire(Category::grad, Take::rather_by_compute), u);
  }
  release_all();
  for (const UnitId u : {1u, 3u, 0u, 2u}) EXPECT_EQ(pool.try_acquire(Category::weight), u);
  EXPECT_EQ(pool.try_acquire(Category::grad, Take::rather_by_compute), std::nullopt);
}

TEST(UnitPool, UnitsAreEqualPiecesOfTheArena) {
  Ledger ledger({10 * kUnit, 0, 0});
  std::byte base[1];
  UnitPool pool(Tier::device, base, kUnit, 4, 1, ledger);
  for (UnitId u = 0; u < 4; ++u) EXPECT_EQ(pool.address(u), base + u * kUnit);
  EXPECT_EQ(pool.units(), 4u);
  EXPECT_EQ(pool.unit_bytes(), kUnit);
  EXPECT_NE(&pool.hazard(0), &pool.hazard(1));
}

TEST(UnitPool, FixedUnitsAreOnlyHandedOutByName) {
  Ledger ledger({10 * kUnit, 0, 0});
  UnitPool pool(Tier::device, nullptr, kUnit, 4, 2, ledger);
  EXPECT_EQ(pool.free_units(), 2u);
  EXPECT_EQ(pool.try_acquire(Category::weight), 2u);
  EXPECT_EQ(pool.try_acquire(Category::weight), 3u);
  EXPECT_EQ(pool.try_acquire(Category::weight), std::nullopt);
  pool.acquire_at(1, Category::grad);
  EXPECT_NE(message_of([&] { pool.acquire_at(1, Category::grad); }).find("already granted"),
            std::string::npos);
  EXPECT_NE(message_of([&] { pool.acquire_at(2, Category::grad); }).find("not a fixed unit"),
            std::string::npos);
  EXPECT_EQ(ledger.now(Tier::device), 3 * kUnit) << "errors charge nothing";
  pool.release(1);
  pool.acquire_at(1, Category::weight);
}

TEST(UnitPool, ReleasingWhatIsNotGrantedIsAnError) {
  Ledger ledger({10 * kUnit, 10 * kUnit, 0});
  UnitPool pool(Tier::host, nullptr, kUnit, 2, 1, ledger);
  for (const UnitId u : {0u, 1u, 2u, ~0u}) {
    const std::string message = message_of([&] { pool.release(u); });
    EXPECT_NE(message.find("unit " + std::to_string(u) + " of the host tier"), std::string::npos)
        << message;
  }
  EXPECT_EQ(pool.free_units(), 1u);
  EXPECT_EQ(ledger.now(Tier::host), 0u);
}

TEST(UnitPool, ARefusedChargeChangesNothing) {
  Ledger ledger({kUnit, 0, 0});
  UnitPool pool(Tier::device, nullptr, kUnit, 3, 1, ledger);
  ASSERT_EQ(pool.try_acquire(Category::weight), 1u);
  EXPECT_THROW(pool.try_acquire(Category::weight), DoesNotFit);
  EXPECT_THROW(pool.acquire_at(0, Category::weight), DoesNotFit);
  EXPECT_EQ(pool.free_units(), 1u);
  pool.release(1);
  EXPECT_EQ(pool.try_acquire(Category::weight), 2u);
  pool.release(2);
  pool.acquire_at(0, Category::weight);
}

TEST(UnitPool, EmptyPoolsAndImpossibleOnes) {
  Ledger ledger({kUnit, 0, 0});
  UnitPool none(Tier::device, nullptr, kUnit, 0, 0, ledger);
  EXPECT_EQ(none.try_acquire(Category::weight), std::nullopt);
  UnitPool fixed(Tier::device, nullptr, kUnit, 2, 2, ledger);
  EXPECT_EQ(fixed.try_acquire(Category::weight), std::nullopt);
  fixed.acquire_at(1, Category::weight);
  fixed.release(1);
  EXPECT_EQ(fixed.free_units(), 0u);
  EXPECT_THROW(UnitPool(Tier::device, nullptr, kUnit, 2, 3, ledger), StateError);
}

TEST(UnitPool, AgreesWithAQueueOfFreeUnits) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 draw(seed);
    const auto units = static_cast<uint32_t>(draw() % 12);
    const auto fixed = static_cast<uint32_t>(draw() % (units + 1));
    const size_t limit = (units - draw() % (units + 1) / 3) * kUnit;
    Ledger ledger({limit, 0, 0});
    {
      UnitPool pool(Tier::device, nullptr, kUnit, units, fixed, ledger);
      std::deque<UnitId> free;
      for (UnitId u = fixed; u < units; ++u) free.push_back(u);
      std::map<UnitId, Category> granted;
      for (int step = 0; step < 2000; ++step) {
        const auto category = static_cast<Category>(draw() % kCategories);
        const auto u = static_cast<UnitId>(draw() % (units + 2));
        const bool full = (granted.size() + 1) * kUnit > limit;
        switch (draw() % 4) {
          case 0:
            if (free.empty()) {
              ASSERT_EQ(pool.try_acquire(category), std::nullopt);
            } else if (full) {
              ASSERT_THROW(pool.try_acquire(category), DoesNotFit);
            } else {
              ASSERT_EQ(pool.try_acquire(category), free.front());
              granted[free.front()] = category;
              free.pop_front();
            }
            break;
          case 1:
            if (u >= fixed || granted.contains(u)) {
              ASSERT_THROW(pool.acquire_at(u, category), StateError);
            } else if (full) {
              ASSERT_THROW(pool.acquire_at(u, category), DoesNotFit);
            } else {
              pool.acquire_at(u, category);
              granted[u] = category;
            }
            break;
          default:
            if (!granted.contains(u)) {
              ASSERT_THROW(pool.release(u), StateError);
            } else {
              pool.release(u);
              granted.erase(u);
              if (u >= fixed) free.push_back(u);
            }
        }
        ASSERT_EQ(pool.free_units(), free.size());
        ASSERT_EQ(ledger.now(Tier::device), granted.size() * kUnit);
        for (size_t c = 0; c < kCategories; ++c) {
          const auto n = std::count_if(granted.begin(), granted.end(), [c](const auto& g) {
            return g.second == static_cast<Category>(c);
          });
          ASSERT_EQ(ledger.now(Tier::device, static_cast<Category>(c)),
                    static_cast<size_t>(n) * kUnit);
        }
      }
    }
    EXPECT_EQ(ledger.now(Tier::device), 0u) << "a pool takes its charges with it";
  }
}

}  // namespace
}  // namespace strata
