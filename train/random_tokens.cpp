#include "train/random_tokens.hpp"

#include "runtime/random.hpp"

namespace strata {

RandomTokens::RandomTokens(uint64_t seed, uint32_t vocabulary, uint64_t tokens) {
  for (size_t b = 0; b < batches_.size(); ++b) {
    const auto draw = [&](uint32_t plane) {
      const uint64_t stream = random_stream(RandomUse::data, static_cast<uint32_t>(2 * b) + plane);
      std::vector<int32_t> ids(tokens);
      for (uint64_t i = 0; i < tokens; ++i) {
        ids[i] = static_cast<int32_t>(random_below(seed, stream, i, vocabulary));
      }
      return ids;
    };
    batches_[b] = {draw(0), draw(1)};
  }
}

}  // namespace strata
