// Which token comes next, given what the model thinks of each.
#pragma once
#include <cstdint>
#include <span>

namespace strata {

struct TokenChoice {
  /// Divides the logits: the smaller, the likelier the likeliest. 0: always the likeliest.
  double temperature = 1.0;
  /// Only the likeliest so many may be chosen; 0: all.
  uint32_t top_k = 0;
  uint64_t seed = 1;
};

/// The token at `position` of a sequence. A pure function of its arguments: the random number is
/// that of (seed, position), and the tokens share it out in double, the likeliest first, of equal
/// ones that with the lower id. Throws ConfigError for a temperature below 0 or not finite, and
/// NonFinite for a logit that is not finite.
int32_t choose_token(std::span<const float> logits, const TokenChoice&, uint64_t position);

}  // namespace strata
