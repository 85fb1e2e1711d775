#include "train/tokenizer.hpp"

#include <fmt/format.h>

#include "runtime/errors.hpp"

namespace strata {

void ByteTokenizer::require_vocabulary(uint64_t model_vocabulary) {
  if (model_vocabulary >= kVocabulary) return;
  throw ConfigError(
      fmt::format("the model's vocabulary has {} entries but the byte tokenizer needs {}; use a "
                  "model with V{} or more",
                  model_vocabulary, kVocabulary, kVocabulary));
}

void ByteTokenizer::encode(std::span<const uint8_t> bytes, int32_t* ids) noexcept {
  for (size_t i = 0; i < bytes.size(); ++i) ids[i] = bytes[i];
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (int32_t id : ids) {
    const bool known = id >= 0 && id < static_cast<int32_t>(kVocabulary);
    text.push_back(known ? static_cast<char>(id) : '?');
  }
  return text;
}

}  // namespace strata
