#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// Reactive. Homes are on the host as far as it reaches, the first chunks' on the device beyond.
/// Prefetches go into free units only and never evict.
class LruPolicy : public Policy {
 public:
  std::string name() const override { return "lru"; }
  std::vector<ChunkPlacement> place(const PlacementInput&) const override;
  size_t choose_victim(std::span<const Victim>) const override;
  uint32_t look_ahead() const noexcept override { return 24; }
};

}  // namespace strata
