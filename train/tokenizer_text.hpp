// Text that can be shown out of bytes that may be none.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "train/tokenizer_utf8.hpp"

namespace strata {

/// Feed bytes in pieces of any size, then `finish`. What comes out is UTF-8 in whole characters: a
/// character appears with its last byte, and the longest start of one that cannot go on as U+FFFD
/// (the Unicode Standard, section 3.9: substitution of maximal subparts).
class Utf8Text {
 public:
  std::string feed(std::span<const uint8_t> bytes);
  /// What the end cuts off.
  std::string finish();

 private:
  void take(uint8_t byte, std::string& text);

  Utf8Validator validator_;
  std::string partial_;
};

}  // namespace strata
