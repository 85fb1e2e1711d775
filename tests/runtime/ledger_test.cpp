#include "runtime/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr size_t kMax = std::numeric_limits<size_t>::max();

TEST(Ledger, HoldsUpToTheLimitAndNotAByteMore) {
  Ledger ledger({100, 50, 0});
  {
    const Reservation a = ledger.reserve(Tier::device, Category::weight, 60);
    const Reservation b = ledger.reserve(Tier::device, Category::grad, 40);
    EXPECT_EQ(ledger.now(Tier::device), 100u);
    EXPECT_EQ(ledger.now(Tier::device, Category::grad), 40u);
    EXPECT_THROW(ledger.reserve(Tier::device, Category::weight, 1), DoesNotFit);
    EXPECT_NO_THROW(ledger.reserve(Tier::device, Category::weight, 0));
    EXPECT_EQ(ledger.now(Tier::device), 100u) << "a refusal charges nothing";
    EXPECT_EQ(ledger.now(Tier::host), 0u) << "tiers are apart";
    EXPECT_THROW(ledger.reserve(Tier::nvme, Category::external, 1), DoesNotFit);
  }
  EXPECT_EQ(ledger.now(Tier::device), 0u);
  EXPECT_EQ(ledger.peak(Tier::device), 100u);
  EXPECT_EQ(ledger.limit(Tier::host), 50u);
}

TEST(Ledger, ARefusalSaysWhatIsShort) {
  Ledger ledger({100, 0, 0});
  const Reservation held = ledger.reserve(Tier::device, Category::activation, 70);
  for (const size_t bytes : {size_t{31}, kMax}) {
    try {
      ledger.charge(Tier::device, Category::workspace, bytes);
      FAIL() << "nothing was thrown";
    } catch (const DoesNotFit& e) {
      EXPECT_EQ(e.exit_code(), 3);
      const std::string message = e.what();
      for (const std::string& part :
           {std::string("device"), std::string("workspace"), std::to_string(bytes),
            std::string("70 of 100"), "short by " + std::to_string(bytes - 30)}) {
        EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
      }
    }
  }
}

TEST(Ledger, ReservationsMove) {
  Ledger ledger({100, 100, 0});
  Reservation a = ledger.reserve(Tier::device, Category::weight, 10);
  Reservation b = ledger.reserve(Tier::host, Category::grad, 20);
  Reservation c(std::move(a));
  EXPECT_EQ(ledger.now(Tier::device), 10u);
  b = std::move(c);
  EXPECT_EQ(ledger.now(Tier::host), 0u) << "what it held before is released";
  EXPECT_EQ(ledger.now(Tier::device, Category::weight), 10u);
  Reservation& self = b;
  b = std::move(self);
  EXPECT_EQ(ledger.now(Tier::device), 10u);
  b = Reservation();
  EXPECT_EQ(ledger.now(Tier::device), 0u);
}

TEST(Ledger, CategoriesPeakApart) {
  Ledger ledger({100, 0, 0});
  { const Reservation a = ledger.reserve(Tier::device, Category::weight, 70); }
  const Reservation b = ledger.reserve(Tier::device, Category::staging, 50);
  EXPECT_EQ(ledger.peak(Tier::device), 70u);
  EXPECT_EQ(ledger.peak(Tier::device, Category::weight), 70u);
  EXPECT_EQ(ledger.peak(Tier::device, Category::staging), 50u);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.peak(Tier::device), 50u);
  EXPECT_EQ(ledger.peak(Tier::device, Category::weight), 0u);
}

TEST(Ledger, NamesAreDistinct) {
  std::map<std::string, int> names;
  for (size_t c = 0; c < kCategories; ++c) ++names[name_of(static_cast<Category>(c))];
  EXPECT_EQ(names.size(), kCategories);
}

/// The same books, kept as a list of charges.
struct Model {
  struct Charge {
    size_t tier, category, bytes;
    Reservation owner;
  };
  std::vector<Charge> charges;
  std::array<size_t, kTiers> peak{};
  std::array<std::array<size_t, kCategories>, kTiers> category_peak{};

  size_t total(size_t t) const {
    size_t sum = 0;
    for (const Charge& c : charges) sum += c.tier == t ? c.bytes : 0;
    return sum;
  }
  size_t total(size_t t, size_t category) const {
    size_t sum = 0;
    for (const Charge& c : charges) sum += c.tier == t && c.category == category ? c.bytes : 0;
    return sum;
  }
  void update_peaks(bool reset) {
    for (size_t t = 0; t < kTiers; ++t) {
      peak[t] = std::max(reset ? 0 : peak[t], total(t));
      for (size_t c = 0; c < kCategories; ++c) {
        category_peak[t][c] = std::max(reset ? 0 : category_peak[t][c], total(t, c));
      }
    }
  }
};

void compare(const Ledger& ledger, const Model& model, int step) {
  for (size_t t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    ASSERT_EQ(ledger.now(tier), model.total(t)) << "step " << step;
    ASSERT_EQ(ledger.peak(tier), model.peak[t]) << "step " << step;
    ASSERT_LE(ledger.peak(tier), ledger.limit(tier));
    for (size_t c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      ASSERT_EQ(ledger.now(tier, category), model.total(t, c)) << "step " << step;
      ASSERT_EQ(ledger.peak(tier, category), model.category_peak[t][c]) << "step " << step;
    }
  }
}

TEST(Ledger, AgreesWithAListOfCharges) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    std::mt19937_64 draw(seed);
    const std::array<size_t, kTiers> limits = {400, 1000, 0};
    Ledger ledger(limits);
    Model model;
    for (int step = 0; step < 1000; ++step) {
      const size_t kind = draw() % 10;
      bool reset = false;
      if (kind < 6) {
        const size_t t = draw() % kTiers, c = draw() % kCategories, bytes = draw() % 100;
        if (model.total(t) + bytes > limits[t]) {
          ASSERT_THROW(ledger.reserve(static_cast<Tier>(t), static_cast<Category>(c), bytes),
                       DoesNotFit);
        } else {
          model.charges.push_back(
              {t, c, bytes, ledger.reserve(static_cast<Tier>(t), static_cast<Category>(c), bytes)});
        }
      } else if (kind < 9 && !model.charges.empty()) {
        const size_t i = draw() % model.charges.size();
        std::swap(model.charges[i], model.charges.back());
        model.charges.pop_back();
      } else if (kind == 9) {
        ledger.reset_peaks();
        reset = true;
      }
      model.update_peaks(reset);
      compare(ledger, model, step);
    }
    model.charges.clear();
    for (size_t t = 0; t < kTiers; ++t) EXPECT_EQ(ledger.now(static_cast<Tier>(t)), 0u);
  }
}

}  // namespace
}  // namespace strata
