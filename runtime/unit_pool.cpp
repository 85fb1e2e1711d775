#include "runtime/unit_pool.hpp"

#include <string>

#include "runtime/errors.hpp"

namespace strata {

UnitPool::UnitPool(Tier tier, std::byte* base, size_t unit_bytes, uint32_t units, uint32_t fixed,
                   Ledger& ledger)
    : tier_(tier),
      base_(base),
      unit_bytes_(unit_bytes),
      fixed_(fixed),
      ledger_(ledger),
      state_(units, kFree),
      hazards_(units) {
  if (fixed > units) {
    throw StateError(std::string("a pool of ") + std::to_string(units) + " units of the " +
                     name_of(tier) + " tier cannot keep " + std::to_string(fixed) + " fixed ones");
  }
  free_.resize(units - fixed);
  free_count_ = units - fixed;
  for (uint32_t i = 0; i < free_count_; ++i) free_[i] = fixed + i;
}

UnitPool::~UnitPool() {
  for (const uint8_t s : state_) {
    if (s != kFree) ledger_.release(tier_, static_cast<Category>(s), unit_bytes_);
  }
}

std::optional<UnitId> UnitPool::try_acquire(Category c) {
  if (free_count_ == 0) return std::nullopt;
  ledger_.charge(tier_, c, unit_bytes_);
  const UnitId u = free_[free_head_];
  free_head_ = (free_head_ + 1) % static_cast<uint32_t>(free_.size());
  --free_count_;
  state_[u] = static_cast<uint8_t>(c);
  return u;
}

void UnitPool::acquire_at(UnitId u, Category c) {
  if (u >= fixed_ || state_[u] != kFree) {
    throw StateError(std::string("unit ") + std::to_string(u) + " of the " + name_of(tier_) +
                     " tier is " + (u >= fixed_ ? "not a fixed unit" : "already granted"));
  }
  ledger_.charge(tier_, c, unit_bytes_);
  state_[u] = static_cast<uint8_t>(c);
}

void UnitPool::release(UnitId u) {
  if (u >= state_.size() || state_[u] == kFree) {
    throw StateError("unit " + std::to_string(u) + " of the " + name_of(tier_) +
                     " tier was released but is not granted");
  }
  ledger_.release(tier_, static_cast<Category>(state_[u]), unit_bytes_);
  state_[u] = kFree;
  if (u < fixed_) return;
  free_[(free_head_ + free_count_) % free_.size()] = u;
  ++free_count_;
}

}  // namespace strata
