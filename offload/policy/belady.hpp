#pragma once
#include "offload/policy/lru.hpp"

namespace strata {

/// Evicts what is used furthest away, over the end of the step into the next one, and prefetches in
/// its place. Homes are those of `lru`.
class BeladyPolicy final : public LruPolicy {
 public:
  std::string name() const override { return "belady"; }
  size_t choose_victim(std::span<const Victim> victims) const override {
    return Policy::choose_victim(victims);
  }
  /// About a block: what is fetched earlier takes the place of what would stay.
  uint32_t look_ahead() const noexcept override { return 10; }
  bool evicts_for_prefetch() const noexcept override { return true; }
};

}  // namespace strata
