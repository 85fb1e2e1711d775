#include "train/tokenizer_utf8.hpp"

#include <cstddef>

namespace strata {

std::optional<uint64_t> Utf8Validator::feed(std::span<const uint8_t> bytes) noexcept {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t b = bytes[i];
    if (missing_ > 0) {
      if (b < low_ || b > high_) return start_;
      low_ = 0x80;
      high_ = 0xbf;
      --missing_;
      continue;
    }
    if (b < 0x80) continue;
    start_ = consumed_ + i;
    if (b < 0xc2 || b > 0xf4) return start_;
    missing_ = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    if (b == 0xe0) low_ = 0xa0;   // shorter forms exist below
    if (b == 0xed) high_ = 0x9f;  // surrogates above
    if (b == 0xf0) low_ = 0x90;
    if (b == 0xf4) high_ = 0x8f;  // U+10FFFF is the last
  }
  consumed_ += bytes.size();
  return std::nullopt;
}

std::optional<uint64_t> Utf8Validator::finish() const noexcept {
  if (missing_ > 0) return start_;
  return std::nullopt;
}

}  // namespace strata
