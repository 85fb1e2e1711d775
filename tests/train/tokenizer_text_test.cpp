#include "train/tokenizer_text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace strata {
namespace {

std::span<const uint8_t> bytes_of(const std::string& s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

/// `_` stands for U+FFFD in what is expected. The same for every way to cut the bytes in two.
void expect_text(const std::string& bytes, std::string expected) {
  for (size_t at; (at = expected.find('_')) != std::string::npos;) {
    expected.replace(at, 1, "\xef\xbf\xbd");
  }
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Utf8Text text;
    std::string out = text.feed(bytes_of(bytes).first(cut));
    Utf8Validator whole;
    EXPECT_FALSE(whole.feed(bytes_of(out)) || whole.finish()) << "part of a character came out";
    out += text.feed(bytes_of(bytes).subspan(cut));
    out += text.finish();
    EXPECT_EQ(out, expected) << "cut at " << cut;
    EXPECT_EQ(text.finish(), "") << "begins anew";
  }
}

TEST(Utf8Text, WellFormedTextIsUnchanged) {
  const std::string text(
      "a\0\n\x7f\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x8b\xef\xbf\xbd\xf4\x8f\xbf\xbf", 20);
  expect_text(text, text);
  expect_text("", "");
}

TEST(Utf8Text, ACharacterAppearsWithItsLastByte) {
  Utf8Text text;
  EXPECT_EQ(text.feed(bytes_of("x\xf0\x9f")), "x");
  EXPECT_EQ(text.feed(bytes_of("\x90")), "");
  EXPECT_EQ(text.feed(bytes_of("\x8by")), "\xf0\x9f\x90\x8by");
}

TEST(Utf8Text, WhatIsNoCharacterIsReplaced) {
  // The Unicode Standard, tables 3-8 to 3-11.
  expect_text("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", "________A");
  expect_text("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", "________A");
  expect_text("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "_____A__B");
  expect_text("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "____A");
  expect_text("\x80", "_");
  expect_text("a\xe2\x82", "a_");
  expect_text("\xe2\x82\xc3\xa9", "_\xc3\xa9");
}

}  // namespace
}  // namespace strata
