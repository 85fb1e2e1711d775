#include "train/tokenizer_text.hpp"

namespace strata {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";

}  // namespace

std::string Utf8Text::feed(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t b : bytes) take(b, text);
  return text;
}

std::string Utf8Text::finish() {
  std::string text = partial_.empty() ? "" : kReplacement;
  *this = {};
  return text;
}

void Utf8Text::take(uint8_t byte, std::string& text) {
  if (validator_.feed({&byte, 1})) {
    const bool starts = partial_.empty();
    text += kReplacement;
    *this = {};
    // The byte that does not go on with a character may start one.
    if (!starts) take(byte, text);
    return;
  }
  partial_.push_back(static_cast<char>(byte));
  if (validator_.finish()) return;
  text += partial_;
  partial_.clear();
}

}  // namespace strata
