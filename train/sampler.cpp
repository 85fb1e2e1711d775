#include "train/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/errors.hpp"
#include "runtime/random.hpp"

namespace strata {

TokenSplit split_tokens(uint64_t tokens) noexcept {
  const uint64_t validation = tokens / 10;
  return {tokens - validation, validation};
}

WindowSampler::WindowSampler(uint64_t tokens, uint32_t seq, uint64_t seed)
    : split_(split_tokens(tokens)), seq_(seq), seed_(seed) {
  if (seq == 0) throw ConfigError("the sequence length must be at least 1");
  const uint64_t window = uint64_t{seq} + 1;
  // The validation tenth is the smaller part whenever it is not empty by rounding.
  if (split_.validation >= window && split_.train >= window) return;
  throw ConfigError(
      fmt::format("the data has {} tokens, too few for sequences of {}: the last tenth, kept for "
                  "validation, must hold {} tokens, so at least {} are needed; add data or lower "
                  "--seq",
                  tokens, seq, window, 10 * window));
}

uint64_t WindowSampler::train_start(uint64_t sample) const noexcept {
  return random_below(seed_, random_stream(RandomUse::data), sample, split_.train - seq_);
}

uint64_t WindowSampler::validation_start(uint64_t window) const noexcept {
  return split_.train + (window % validation_windows()) * seq_;
}

uint64_t WindowSampler::validation_batches(uint32_t batch, uint64_t most) const noexcept {
  return std::max<uint64_t>(1, std::min(most, validation_windows() / batch));
}

}  // namespace strata
