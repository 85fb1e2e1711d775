#include "train/tokenizer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/errors.hpp"
#include "train/tokenizer_utf8.hpp"

namespace strata {
namespace {

std::span<const uint8_t> bytes_of(const std::string& s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

/// Offset of the first error, or -1; the same for every way to cut the text in two.
int64_t first_error(const std::string& text) {
  std::vector<int64_t> results;
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    Utf8Validator utf8;
    auto bad = utf8.feed(bytes_of(text).first(cut));
    if (!bad) bad = utf8.feed(bytes_of(text).subspan(cut));
    if (!bad) bad = utf8.finish();
    results.push_back(bad ? static_cast<int64_t>(*bad) : -1);
    EXPECT_EQ(results.back(), results.front()) << "cut at " << cut;
  }
  return results.front();
}

TEST(Tokenizer, IdsAreBytes) {
  const std::string text("a\0\x7f\xc3\xa9\xf0\x9f\x90\x8b", 9);
  std::vector<int32_t> ids(text.size());
  ByteTokenizer::encode(bytes_of(text), ids.data());
  EXPECT_EQ(ids, (std::vector<int32_t>{97, 0, 127, 0xc3, 0xa9, 0xf0, 0x9f, 0x90, 0x8b}));
  EXPECT_EQ(ByteTokenizer::decode(ids), text);
  EXPECT_EQ(ByteTokenizer::decode(std::vector<int32_t>{104, -1, 256, 105}), "h??i");
}

TEST(Tokenizer, RefusesASmallVocabulary) {
  EXPECT_NO_THROW(ByteTokenizer::require_vocabulary(256));
  EXPECT_NO_THROW(ByteTokenizer::require_vocabulary(50257));
  EXPECT_THROW(ByteTokenizer::require_vocabulary(255), ConfigError);
}

TEST(Tokenizer, Utf8AcceptsTheEdgesOfEveryRange) {
  EXPECT_EQ(first_error(""), -1);
  EXPECT_EQ(first_error("plain\x7f"), -1);
  EXPECT_EQ(first_error("\xc2\x80 \xdf\xbf"), -1);                  // U+0080, U+07FF
  EXPECT_EQ(first_error("\xe0\xa0\x80 \xed\x9f\xbf"), -1);          // U+0800, U+D7FF
  EXPECT_EQ(first_error("\xee\x80\x80 \xef\xbf\xbf"), -1);          // U+E000, U+FFFF
  EXPECT_EQ(first_error("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"), -1);  // U+10000, U+10FFFF
}

TEST(Tokenizer, Utf8NamesTheOffsetOfTheSequence) {
  EXPECT_EQ(first_error("ab\x80"), 2);                    // stray continuation
  EXPECT_EQ(first_error("\xc3\xa9\xff"), 2);              // never a lead byte
  EXPECT_EQ(first_error("a\xc0\x80"), 1);                 // overlong, two bytes
  EXPECT_EQ(first_error("a\xc1\xbf"), 1);                 // overlong, two bytes
  EXPECT_EQ(first_error("\xe0\x9f\xbf"), 0);              // overlong, three bytes
  EXPECT_EQ(first_error("\xf0\x8f\xbf\xbf"), 0);          // overlong, four bytes
  EXPECT_EQ(first_error("xyz\xed\xa0\x80"), 3);           // surrogate
  EXPECT_EQ(first_error("\xf4\x90\x80\x80"), 0);          // above U+10FFFF
  EXPECT_EQ(first_error("\xf5\x80\x80\x80"), 0);          // above U+10FFFF
  EXPECT_EQ(first_error("ab\xe2\x82"), 2);                // cut off by the end
  EXPECT_EQ(first_error("ab\xe2\x82 c"), 2);              // cut off by text
  EXPECT_EQ(first_error("a\xe2\xc3\xa9"), 1);             // cut off by a lead byte
  EXPECT_EQ(first_error("\xe0\xa0\x80\xed\x9f\xc0"), 3);  // bounds are reset between characters
}

}  // namespace
}  // namespace strata
