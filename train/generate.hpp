// Token after token from a trained model.
#pragma once
#include <functional>
#include <vector>

#include "train/session.hpp"
#include "train/token_choice.hpp"

namespace strata {

struct GenerateOptions {
  uint64_t max_tokens = 256;
  TokenChoice choice;
};

/// Goes on with a sequence. Every token is a forward pass over all before it, or over the newest
/// as many as the model has positions; those then move one position down with each token.
class Generator {
 public:
  /// Called with each token; false: stop after it.
  using TokenFn = std::function<bool(int32_t token)>;

  /// The workload must have been asked to generate.
  Generator(const Workload&, Session&);

  /// What follows `prompt`, which is not empty, and not part of the result. Throws ConfigError for
  /// a prompt or options that make no sense, NonFinite.
  std::vector<int32_t> run(std::span<const int32_t> prompt, const GenerateOptions&,
                           const TokenFn& on_token = {});

 private:
  Session& session_;
  size_t positions_;
  std::vector<float> logits_;
};

}  // namespace strata
