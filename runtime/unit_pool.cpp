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
      hazards_(units),
      released_at_(units) {
  if (fixed > units) {
    throw StateError(std::string("a pool of ") + std::to_string(units) + " units of the " +
                     name_of(tier) + " tier cannot keep " + std::to_string(fixed) + " fixed ones");
  }
  for (Ring& r : free_) r.units.resize(units - fixed);
  for (UnitId u = fixed; u < units; ++u) free_[0].push(u);
}

UnitPool::~UnitPool() {
  for (const uint8_t s : state_) {
    if (s != kFree) ledger_.release(tier_, static_cast<Category>(s), unit_bytes_);
  }
}

void UnitPool::Ring::push(UnitId u) {
  units[(head + count) % units.size()] = u;
  ++count;
}

UnitId UnitPool::Ring::pop() {
  const UnitId u = units[head];
  head = (head + 1) % static_cast<uint32_t>(units.size());
  --count;
  return u;
}

std::optional<UnitId> UnitPool::try_acquire(Category c, Take take) {
  if (free_units() == 0) return std::nullopt;
  ledger_.charge(tier_, c, unit_bytes_);
  auto& [compute, transfer] = free_;
  const bool by_compute =
      compute.count != 0 && (transfer.count == 0 || take == Take::rather_by_compute ||
                             released_at_[compute.first()] < released_at_[transfer.first()]);
  const UnitId u = (by_compute ? compute : transfer).pop();
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

void UnitPool::release(UnitId u, Freed how) {
  if (u >= state_.size() || state_[u] == kFree) {
    throw StateError("unit " + std::to_string(u) + " of the " + name_of(tier_) +
                     " tier was released but is not granted");
  }
  ledger_.release(tier_, static_cast<Category>(state_[u]), unit_bytes_);
  state_[u] = kFree;
  released_at_[u] = releases_++;
  if (u >= fixed_) free_[static_cast<size_t>(how)].push(u);
}

}  // namespace strata
