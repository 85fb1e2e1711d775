// Byte accounting of every tier by category. Issuer thread only, in program order, so that peaks
// are exact and repeat.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/backend.hpp"

namespace strata {

enum class Category : uint8_t { weight, grad, optimizer, activation, workspace, staging, external };
constexpr size_t kCategories = 7;
const char* name_of(Category) noexcept;

class Ledger;

/// Bytes charged to a ledger until destroyed. Must not outlive the ledger.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& o) noexcept;
  Reservation& operator=(Reservation&& o) noexcept;
  ~Reservation();

 private:
  friend class Ledger;
  Reservation(Ledger* l, Tier t, Category c, size_t n)
      : ledger_(l), tier_(t), category_(c), bytes_(n) {}

  Ledger* ledger_ = nullptr;
  Tier tier_ = Tier::device;
  Category category_ = Category::weight;
  size_t bytes_ = 0;
};

class Ledger {
 public:
  /// `limits`: bytes a tier may hold, over all categories.
  explicit Ledger(const std::array<size_t, kTiers>& limits) : limits_(limits) {}
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Throws DoesNotFit naming tier, category and shortfall; nothing is charged then.
  Reservation reserve(Tier, Category, size_t bytes);
  /// Charges without an owner (unit pools); pair with `release`.
  void charge(Tier, Category, size_t bytes);
  void release(Tier, Category, size_t bytes) noexcept;

  size_t now(Tier) const noexcept;
  size_t now(Tier, Category) const noexcept;
  /// Largest simultaneous use of the tier since the last `reset_peaks`.
  size_t peak(Tier) const noexcept;
  /// Largest use of one category; categories may peak at different times.
  size_t peak(Tier, Category) const noexcept;
  size_t limit(Tier t) const noexcept { return limits_[static_cast<size_t>(t)]; }
  void reset_peaks() noexcept;

 private:
  struct Account {
    std::array<size_t, kCategories> now{}, peak{};
    size_t total = 0, total_peak = 0;
  };
  std::array<size_t, kTiers> limits_;
  std::array<Account, kTiers> accounts_{};
};

}  // namespace strata
