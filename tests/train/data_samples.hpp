// What tests of the training data share.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {

/// The message of the `Error` that `f` throws.
template <class Error>
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error of that kind";
  return "";
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

/// 300 bytes whose neighbours identify the position.
inline std::string ramp() {
  std::string text;
  for (int i = 0; i < 300; ++i) text.push_back(static_cast<char>((i * 37 + i / 100) % 128));
  return text;
}

}  // namespace strata
