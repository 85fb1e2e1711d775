// Text to token ids.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace strata {

/// Token ids are the bytes of UTF-8 text, unchanged: no vocabulary file, 256 ids.
class ByteTokenizer {
 public:
  static constexpr uint32_t kVocabulary = 256;
  static constexpr const char* kName = "byte";

  /// Throws ConfigError when a model with `model_vocabulary` rows cannot embed every byte.
  static void require_vocabulary(uint64_t model_vocabulary);

  /// ids[i] = bytes[i]; `ids` holds at least bytes.size().
  static void encode(std::span<const uint8_t> bytes, int32_t* ids) noexcept;

  /// Bytes of the ids; an id outside the vocabulary becomes '?'. May end inside a character.
  static std::string decode(std::span<const int32_t> ids);
};

}  // namespace strata
