// Tokens for measurements: random, and the same ones again and again.
#pragma once
#include <array>
#include <vector>

#include "models/model.hpp"

namespace strata {

/// Three batches that take turns, so that a step's tokens stay while the next two are issued.
class RandomTokens {
 public:
  /// `tokens` a step, each below `vocabulary`.
  RandomTokens(uint64_t seed, uint32_t vocabulary, uint64_t tokens);

  TokenBatch batch(uint64_t step) const noexcept {
    const Batch& b = batches_[step % batches_.size()];
    return {b.tokens.data(), b.targets.data()};
  }
  /// Of one step.
  uint64_t tokens() const noexcept { return batches_.front().tokens.size(); }

 private:
  struct Batch {
    std::vector<int32_t> tokens, targets;
  };

  std::array<Batch, 3> batches_;
};

}  // namespace strata
