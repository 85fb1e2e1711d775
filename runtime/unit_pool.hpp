// The units of one tier: equal pieces of its arena, granted at issue.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/hazard.hpp"
#include "runtime/ledger.hpp"

namespace strata {

using UnitId = uint32_t;

/// How a free unit was used last: compute need not wait for one that only it used.
enum class Freed : uint8_t { by_compute, by_transfer };
/// Which free unit to take: the one released longest ago, or rather one freed by compute.
enum class Take : uint8_t { oldest, rather_by_compute };

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

  /// A free unit, or nothing; never waits.
  std::optional<UnitId> try_acquire(Category, Take = Take::oldest);
  /// A fixed unit; StateError when it is taken.
  void acquire_at(UnitId, Category);
  /// `by_transfer`: its content is still being written elsewhere.
  void release(UnitId, Freed = Freed::by_compute);

  std::byte* address(UnitId u) const noexcept { return base_ + u * unit_bytes_; }
  Hazard& hazard(UnitId u) noexcept { return hazards_[u]; }
  size_t unit_bytes() const noexcept { return unit_bytes_; }
  uint32_t free_units() const noexcept { return free_[0].count + free_[1].count; }
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
  struct Ring {  // oldest first
    std::vector<UnitId> units;
    uint32_t head = 0, count = 0;

    UnitId first() const { return units[head]; }
    void push(UnitId);
    UnitId pop();
  };
  std::array<Ring, 2> free_;           // by `Freed`
  std::vector<uint64_t> released_at_;  // by unit: releases before its last one
  uint64_t releases_ = 0;
};

}  // namespace strata
