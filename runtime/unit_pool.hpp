// The units of one tier: equal pieces of its arena, granted at issue.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/hazard.hpp"
#include "runtime/ledger.hpp"

namespace strata {

using UnitId = uint32_t;

/// Grants are logical: a released unit may be granted again at once, and its `Hazard` makes the new
/// user wait for the old one. Grants depend on issue order only. Issuer thread only.
class UnitPool {
 public:
  /// `units` units of `unit_bytes` at `base`; the first `fixed` of them are only handed out by
  /// `acquire_at` (windows of tensors that span chunks).
  UnitPool(Tier, std::byte* base, size_t unit_bytes, uint32_t units, uint32_t fixed, Ledger&);
  ~UnitPool();
  UnitPool(const UnitPool&) = delete;
  UnitPool& operator=(const UnitPool&) = delete;

  /// The free unit that was released longest ago, or nothing; never waits.
  std::optional<UnitId> try_acquire(Category);
  /// A fixed unit; StateError when it is taken.
  void acquire_at(UnitId, Category);
  void release(UnitId);

  std::byte* address(UnitId u) const noexcept { return base_ + u * unit_bytes_; }
  Hazard& hazard(UnitId u) noexcept { return hazards_[u]; }
  size_t unit_bytes() const noexcept { return unit_bytes_; }
  uint32_t free_units() const noexcept { return free_count_; }
  uint32_t units() const noexcept { return static_cast<uint32_t>(state_.size()); }

 private:
  static constexpr uint8_t kFree = 0xff;

  Tier tier_;
  std::byte* base_;
  size_t unit_bytes_;
  uint32_t fixed_;
  Ledger& ledger_;
  std::vector<uint8_t> state_;  // kFree, or the category
  std::vector<Hazard> hazards_;
  std::vector<UnitId> free_;  // ring, oldest first
  uint32_t free_head_ = 0, free_count_ = 0;
};

}  // namespace strata
