// Which windows of a token stream are trained on: pure functions of (seed, sample index).
#pragma once
#include <cstdint>

namespace strata {

/// A stream of tokens cut in two: the first `train`, then `validation` (the last tenth).
struct TokenSplit {
  uint64_t train = 0;
  uint64_t validation = 0;
};

/// The window of a sample is `seq` + 1 tokens: inputs, and targets one position later.
class WindowSampler {
 public:
  /// Throws ConfigError unless both parts of the split hold at least one window.
  WindowSampler(uint64_t tokens, uint32_t seq, uint64_t seed);

  uint32_t seq() const noexcept { return seq_; }
  const TokenSplit& split() const noexcept { return split_; }

  /// First token of the window of global sample `sample`: uniform over all windows that lie within
  /// the training part. Does not depend on how samples are grouped into batches or ranks.
  uint64_t train_start(uint64_t sample) const noexcept;

  /// Number of validation windows, whose inputs follow each other without overlap.
  uint64_t validation_windows() const noexcept { return (split_.validation - 1) / seq_; }

  /// First token of a validation window; indices past the last start over.
  uint64_t validation_start(uint64_t window) const noexcept;

  /// How many validation batches of `batch` windows to run: full ones only, at most `most`, but at
  /// least one, which starts over when the text has fewer windows than a batch.
  uint64_t validation_batches(uint32_t batch, uint64_t most) const noexcept;

 private:
  TokenSplit split_;
  uint32_t seq_;
  uint64_t seed_;
};

/// The last tokens / 10 are for validation.
TokenSplit split_tokens(uint64_t tokens) noexcept;

}  // namespace strata
