#include "cli/sizes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "runtime/errors.hpp"

namespace strata {
namespace {

uint64_t bytes(std::string_view text) { return parse_bytes("--chunk-size", text); }
Size size(std::string_view text) { return Size::parse("--device-mem", text); }

std::string message(std::string_view text) {
  try {
    size(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  ADD_FAILURE() << "accepted " << text;
  return "";
}

TEST(Sizes, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("4096"), 4096u);
  EXPECT_EQ(bytes("17B"), 17u);
  EXPECT_EQ(bytes("3KiB"), 3072u);
  EXPECT_EQ(bytes("700MiB"), 734003200u);
  EXPECT_EQ(bytes("2GiB"), 2147483648u);
  EXPECT_EQ(bytes("1TiB"), 1099511627776u);
  EXPECT_EQ(bytes("3kB"), 3000u);
  EXPECT_EQ(bytes("5MB"), 5000000u);
  EXPECT_EQ(bytes("1.5GB"), 1500000000u);
  EXPECT_EQ(bytes("2TB"), 2000000000000u);
  EXPECT_EQ(bytes("2gib"), bytes("2GiB"));
  EXPECT_EQ(bytes("2 GiB"), bytes("2GiB"));
  EXPECT_EQ(bytes("0.5KiB"), 512u);
  EXPECT_EQ(bytes("1.25GiB"), 1342177280u);
  EXPECT_EQ(bytes("9007199254740993"), 9007199254740993u) << "whole bytes do not pass by double";
}

TEST(Sizes, SharesAndAllButDependOnWhatIsThere) {
  EXPECT_EQ(size("80%").resolve("--device-mem", 1000), 800u);
  EXPECT_EQ(size("12.5%").resolve("--device-mem", 1000), 125u);
  EXPECT_EQ(size("0%").resolve("--device-mem", 1000), 0u);
  EXPECT_EQ(size("100%").resolve("--device-mem", ~0ull >> 10), ~0ull >> 10);
  EXPECT_EQ(size("-2GiB").resolve("--device-mem", 3ull << 30), 1ull << 30);
  EXPECT_EQ(size("-0").resolve("--device-mem", 5), 5u);
  EXPECT_EQ(size("2KiB").resolve("--device-mem", 5), 2048u);
  EXPECT_TRUE(size("2KiB").is_absolute());
  EXPECT_FALSE(size("80%").is_absolute());
  EXPECT_FALSE(size("-1GiB").is_absolute());
  EXPECT_THROW(size("-2GiB").resolve("--device-mem", 1ull << 30), ConfigError);
}

TEST(Sizes, RefusalsNameFlagTextAndWhatIsAccepted) {
  for (const char* text :
       {"",           "-",     "GiB",  "2XiB", "2G",   "1.GiB", ".5GiB",
        "1,5GiB",     "2GiBs", "101%", "-5%",  "1.5",  "1.5B",  "99999999999999999999",
        "5000000TiB", "0x10",  "+1",   "--1",  "80%%", "nan",   " 1"}) {
    const std::string m = message(text);
    EXPECT_EQ(m.find("--device-mem: '" + std::string(text) + "'"), 0u) << m;
    EXPECT_NE(m.find("2GiB"), std::string::npos) << m;
  }
  for (const char* text : {"80%", "-1GiB", "many"}) {
    try {
      bytes(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const ConfigError& e) {
      EXPECT_EQ(std::string(e.what()).find("80%", 20), std::string::npos) << "bytes only";
    }
  }
}

TEST(Sizes, FormatsForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1025), "1.00 KiB");
  EXPECT_EQ(format_bytes(700ull << 20), "700 MiB");
  EXPECT_EQ(format_bytes(1342177280), "1.25 GiB");
  EXPECT_EQ(format_bytes(19293798), "18.4 MiB");
  EXPECT_EQ(format_bytes(200000000), "191 MiB");
  EXPECT_EQ(format_bytes((1ull << 30) - 1), "1.00 GiB");
  EXPECT_EQ(format_bytes((10ull << 20) - 1), "10.0 MiB");
  EXPECT_EQ(format_bytes(1ull << 50), "1024 TiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<uint64_t>::max()), "16777216 TiB");
}

}  // namespace
}  // namespace strata
