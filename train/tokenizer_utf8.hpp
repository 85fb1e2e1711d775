// Incremental check that a byte stream is UTF-8.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

namespace strata {

/// Feed the stream in pieces of any size, then `finish`. Accepts exactly the well-formed sequences
/// of the Unicode Standard, table 3-7: no overlong forms, surrogates or code points above U+10FFFF.
class Utf8Validator {
 public:
  /// The offset, from the start of the stream, of the first byte of the first sequence that is not
  /// valid; nothing while all is well. Stop feeding after an offset was returned.
  std::optional<uint64_t> feed(std::span<const uint8_t> bytes) noexcept;

  /// As `feed`, for a sequence cut off by the end of the stream.
  std::optional<uint64_t> finish() const noexcept;

 private:
  uint64_t consumed_ = 0;  // bytes before the current call
  uint64_t start_ = 0;     // offset of the lead byte of the current sequence
  uint32_t missing_ = 0;   // continuation bytes still to come
  uint8_t low_ = 0x80;     // bounds of the next continuation byte
  uint8_t high_ = 0xbf;
};

}  // namespace strata
