#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Reactive. Prefetches go into free units only and never evict.
class LruPolicy final : public Policy {
 public:
  std::string name() const override { return "lru"; }
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override {
    return place_below_device(in);
  }
  bool streams() const noexcept override { return true; }
  size_t choose_victim(std::span<const Victim>) const override;
  uint32_t look_ahead() const noexcept override { return 24; }
};

}  // namespace strata
