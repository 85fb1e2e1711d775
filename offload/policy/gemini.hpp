#pragma once
#include "offload/policy/policy.hpp"

namespace strata {

/// The published behaviour of Colossal-AI's Gemini (placement policy `auto`), as a baseline: what
/// an op misses is fetched between it and the op before; evicted is what is used furthest away in
/// this step, where all that is not used again is as far as its end; prefetched are at most `n`
/// weights of the rest of the step, into free units.
class GeminiPolicy final : public Policy {
 public:
  explicit GeminiPolicy(uint32_t prefetches) : prefetches_(prefetches) {}

  std::string name() const override { return "gemini:n=" + std::to_string(prefetches_); }
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override {
    return place_below_device(in);
  }
  bool streams() const noexcept override { return true; }
  size_t choose_victim(std::span<const Victim>) const override;
  /// To the end of the step.
  uint32_t look_ahead() const noexcept override { return prefetches_ == 0 ? 0 : 1u << 30; }
  uint32_t prefetch_limit() const noexcept override { return prefetches_; }
  bool fetches_in_order() const noexcept override { return true; }

 private:
  uint32_t prefetches_;
};

}  // namespace strata
