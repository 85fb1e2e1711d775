// Where the training loop gets its tokens.
#pragma once
#include <cstdint>

#include "train/sampler.hpp"

namespace strata {

/// Token sequences addressed by global sample index, so that the data a step sees depends on
/// nothing but (data, seed, step, global batch). Called by one thread at a time; the calls that
/// fill a batch do not allocate.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;

  uint32_t seq() const noexcept { return sampler_.seq(); }
  uint64_t train_tokens() const noexcept { return sampler_.split().train; }
  uint64_t validation_tokens() const noexcept { return sampler_.split().validation; }
  const WindowSampler& sampler() const noexcept { return sampler_; }

  /// Identifies the token stream, for the numerics key.
  virtual uint64_t hash() const noexcept = 0;

  /// Fills tokens and targets, [samples, seq] each, with samples first_sample, first_sample + 1,
  /// ... The micro-batch m of step s starts at (s * accum + m) * batch. Throws IoError.
  void train_batch(uint64_t first_sample, uint32_t samples, int32_t* tokens, int32_t* targets);

  /// As `train_batch`, for validation windows first_window, first_window + 1, ...; see
  /// `WindowSampler::validation_batches` for how many to ask for.
  void validation_batch(uint64_t first_window, uint32_t samples, int32_t* tokens, int32_t* targets);

 protected:
  explicit TokenSource(const WindowSampler& sampler) : sampler_(sampler) {}

 private:
  /// The seq + 1 tokens of one window from position `start` of the whole stream.
  virtual void read_window(uint64_t start, int32_t* tokens, int32_t* targets) = 0;

  WindowSampler sampler_;
};

}  // namespace strata
