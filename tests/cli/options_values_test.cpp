#include "cli/options_values.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

TEST(OptionsValues, ClosestNeedsAFewCommonLetters) {
  const std::vector<std::string> names = {"--model", "--data", "--seq", "--device-mem",
                                          "--host-mem"};
  EXPECT_EQ(closest("--modle", names), "--model");
  EXPECT_EQ(closest("--dat", names), "--data");
  EXPECT_EQ(closest("--device-memory", names), "--device-mem");
  EXPECT_EQ(closest("--devicemem", names), "--device-mem");
  EXPECT_EQ(closest("--nothing-alike", names), "");
  EXPECT_EQ(closest("q", std::vector<std::string>{"a", "b"}), "");
  EXPECT_EQ(closest("abd", std::vector<std::string>{"xbd", "abc"}), "xbd") << "the first of equals";
}

}  // namespace
}  // namespace strata
