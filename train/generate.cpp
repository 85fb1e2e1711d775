#include "train/generate.hpp"

#include <algorithm>

namespace strata {

Generator::Generator(const Workload& workload, Session& session)
    : session_(session),
      positions_(workload.model().positions()),
      logits_(workload.model().vocabulary()) {}

std::vector<int32_t> Generator::run(std::span<const int32_t> prompt, const GenerateOptions& options,
                                    const TokenFn& on_token) {
  std::vector<int32_t> sequence(prompt.begin(), prompt.end());
  for (uint64_t i = 0; i < options.max_tokens; ++i) {
    const size_t seen = std::min(sequence.size(), positions_);
    session_.next_logits(std::span(sequence).last(seen), logits_);
    sequence.push_back(choose_token(logits_, options.choice, sequence.size()));
    if (on_token && !on_token(sequence.back())) break;
  }
  return {sequence.begin() + static_cast<std::ptrdiff_t>(prompt.size()), sequence.end()};
}

}  // namespace strata
