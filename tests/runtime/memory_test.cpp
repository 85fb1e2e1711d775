#include "runtime/memory.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "runtime/host/host_backend.hpp"

namespace strata {
namespace {

using namespace memory_files;

constexpr std::string_view kMeminfo =
    "MemTotal:       24731648 kB\n"
    "MemFree:        20544512 kB\n"
    "MemAvailable:   23333888 kB\n"
    "HugePages_Total:       0\n";

TEST(Memory, ParsesLinesOfProc) {
  EXPECT_EQ(parse_kilobytes(kMeminfo, "MemAvailable"), size_t{23333888} * 1024);
  EXPECT_EQ(parse_kilobytes(kMeminfo, "MemTotal"), size_t{24731648} * 1024);
  EXPECT_EQ(parse_kilobytes("Name:\tx\nVmRSS:\t    4512 kB\n", "VmRSS"), size_t{4512} * 1024);
  EXPECT_EQ(parse_kilobytes("VmRSS: 1 kB", "VmRSS"), size_t{1024}) << "no newline at the end";
}

TEST(Memory, RefusesOtherLines) {
  EXPECT_EQ(parse_kilobytes(kMeminfo, "Mem"), std::nullopt);
  EXPECT_EQ(parse_kilobytes(kMeminfo, "VmRSS"), std::nullopt);
  EXPECT_EQ(parse_kilobytes(kMeminfo, "HugePages_Total"), std::nullopt) << "not in kB";
  for (const char* bad : {"", "VmRSS", "VmRSS:", "VmRSS: kB", "VmRSS: -1 kB", "VmRSS: 1 MB",
                          "VmRSS: 1kB", "VmRSS: 99999999999999999999 kB",
                          "VmRSS: 18446744073709551615 kB", "\n\n", "VmRSS:\n1 kB"}) {
    EXPECT_EQ(parse_kilobytes(bad, "VmRSS"), std::nullopt) << bad;
  }
}

TEST(Memory, ParsesGroupFiles) {
  EXPECT_EQ(parse_limit("max\n"), std::nullopt);
  EXPECT_EQ(parse_limit("9223372036854771712\n"), std::nullopt) << "v1 without a limit";
  EXPECT_EQ(parse_limit("2147483648\n"), size_t{1} << 31);
  EXPECT_EQ(parse_limit("0"), size_t{0});
  for (const char* bad : {"", "\n", "-1", "12x", "99999999999999999999999"}) {
    EXPECT_EQ(parse_limit(bad), std::nullopt) << bad;
  }
  constexpr std::string_view kStat =
      "anon 7\nfile 4096\ninactive_file 300\ntotal_inactive_file 5\n";
  EXPECT_EQ(parse_stat(kStat, "inactive_file"), 300u);
  EXPECT_EQ(parse_stat(kStat, "total_inactive_file"), 5u);
  EXPECT_EQ(parse_stat(kStat, "inactive"), std::nullopt);
  EXPECT_EQ(parse_stat("x 1 2\n", "x"), std::nullopt);
  EXPECT_EQ(parse_stat("", "x"), std::nullopt);
}

TEST(Memory, WhatAGroupLeavesIsNeverNegative) {
  EXPECT_EQ(left_in_group(100, 30, 0), 70u);
  EXPECT_EQ(left_in_group(100, 30, 10), 80u);
  EXPECT_EQ(left_in_group(100, 130, 10), 0u);
  EXPECT_EQ(left_in_group(100, 30, 50), 100u);
  EXPECT_EQ(left_in_group(0, 0, 0), 0u);
  constexpr size_t kMax = std::numeric_limits<size_t>::max();
  EXPECT_EQ(left_in_group(kMax, kMax, 1), 1u);
}

using Paths = std::vector<std::string>;

TEST(Memory, FindsTheGroupAndItsAncestors) {
  const Groups v2 = parse_groups("0::/user.slice/job\n");
  EXPECT_TRUE(v2.v2);
  EXPECT_EQ(v2.paths, (Paths{"/user.slice/job", "/user.slice", ""}));
  const Groups root = parse_groups("0::/\n");
  EXPECT_EQ(root.paths, (Paths{""}));
  const Groups v1 = parse_groups("9:name=systemd:/\n4:cpu,memory:/docker/1a\n0::/\n");
  EXPECT_FALSE(v1.v2);
  EXPECT_EQ(v1.paths, (Paths{"/docker/1a", "/docker", ""}));
  EXPECT_EQ(parse_groups("4:cpu,memory:/a\n3:cpuset:/b\n0::/c\n", "cpu").paths, (Paths{"/a", ""}));
  EXPECT_EQ(parse_groups("4:memory:/a\n0::/c\n", "cpu").paths, (Paths{"/c", ""}));
  const Groups before = parse_groups("0::/a\n4:memory:/b");
  EXPECT_FALSE(before.v2);
  EXPECT_EQ(before.paths, (Paths{"/b", ""}));
  EXPECT_EQ(parse_groups("0::/with:colon\n").paths, (Paths{"/with:colon", ""}));
  EXPECT_EQ(parse_groups("0::odd").paths, (Paths{"odd", ""}));
  for (const char* none : {"", "\n", "4", "4:memory", "3:cpu:/x\n", "::"}) {
    EXPECT_LE(parse_groups(none).paths.size(), 1u) << none;
  }
}

TEST(Memory, TheMachineHasSome) {
  const size_t available = available_host_memory();
  EXPECT_GT(available, size_t{16} << 20);
  EXPECT_LT(available, size_t{1} << 50);
}

TEST(Memory, AGroupLeavesNoMoreThanItsLimit) {
  const auto group = tightest_memory_group();
  if (!group) GTEST_SKIP() << "no group limits the memory of this process";
  EXPECT_LE(group->left, group->limit);
  EXPECT_LE(available_host_memory(), group->limit);
}

TEST(Memory, ResidentBytesFollowTouchedPages) {
  constexpr size_t kBytes = 32 << 20;
  const Arena arena = allocate_pages(kBytes, "host");
  const size_t before = resident_bytes();
  for (size_t i = 0; i < kBytes; i += 4096) arena.base()[i] = std::byte{1};
  EXPECT_GE(resident_bytes() + (4 << 20), before + kBytes);
}

}  // namespace
}  // namespace strata
