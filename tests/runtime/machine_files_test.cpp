#include "runtime/machine_files.hpp"

#include <gtest/gtest.h>

#include "tests/folder.hpp"

namespace strata {
namespace {

using namespace machine_files;

TEST(MachineFiles, ReadsWholeFilesOrNothing) {
  const Folder folder;
  const std::string text(10000, 'x');
  EXPECT_EQ(read_machine_file(folder.write("file", text)), text);
  EXPECT_EQ(read_machine_file(folder.write("empty", "")), "");
  EXPECT_EQ(read_machine_file(folder.path("none")), std::nullopt);
  EXPECT_EQ(read_machine_file(folder.path()), std::nullopt) << "a folder opens, but is not read";
}

TEST(MachineFiles, FindsFields) {
  constexpr std::string_view kText =
      "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU: fast\nempty\t:\nSeccomp:\t2\n";
  EXPECT_EQ(parse_field(kText, "model name"), "Some CPU: fast");
  EXPECT_EQ(parse_field(kText, "model"), "143");
  EXPECT_EQ(parse_field(kText, "Seccomp"), "2");
  EXPECT_EQ(parse_field(kText, "empty"), "");
  EXPECT_EQ(parse_field("a:1", "a"), "1") << "no newline at the end";
  EXPECT_EQ(parse_field(kText, "mod"), std::nullopt);
  EXPECT_EQ(parse_field(kText, "flags"), std::nullopt);
  EXPECT_EQ(parse_field("", "a"), std::nullopt);
}

TEST(MachineFiles, FindsWordsAndSelections) {
  EXPECT_TRUE(has_word("fpu avx2 avx512f", "avx2"));
  EXPECT_TRUE(has_word("fpu avx2", "avx2"));
  EXPECT_FALSE(has_word("fpu avx2x xavx2", "avx2"));
  EXPECT_FALSE(has_word("", "avx2"));
  EXPECT_EQ(parse_selected("always [madvise] never\n"), "madvise");
  for (const char* bad : {"", "always", "[", "[]", "] [", "never]"}) {
    EXPECT_EQ(parse_selected(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(has_capability("0000000000004000", 14), true);
  EXPECT_EQ(has_capability("000001fffeffffff\n", 24), false);
  for (const char* bad : {"", "x", "4000 1", "1ffffffffffffffff"}) {
    EXPECT_EQ(has_capability(bad, 14), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_number("12\n"), 12u);
  for (const char* bad : {"", "\n", "-1", "1 2", "1x", "99999999999999999999"}) {
    EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
  }
}

TEST(MachineFiles, TheSizesOwnSettingOfHugePagesWins) {
  EXPECT_EQ(huge_page_setting("always [madvise] never\n", ""), "madvise");
  EXPECT_EQ(huge_page_setting("always madvise [never]\n", "always [inherit] madvise never"),
            "never");
  EXPECT_EQ(huge_page_setting("always [madvise] never\n", "always inherit madvise [never]"),
            "never");
  EXPECT_EQ(huge_page_setting("always madvise [never]\n", "[always] inherit madvise never"),
            "always");
  EXPECT_EQ(huge_page_setting("", ""), std::nullopt);
  EXPECT_EQ(huge_page_setting("[other]", ""), std::nullopt);
}

TEST(MachineFiles, ComparesKernels) {
  EXPECT_EQ(kernel_at_least("6.1.0-13-amd64", 5, 12), true);
  EXPECT_EQ(kernel_at_least("5.12.0", 5, 12), true);
  EXPECT_EQ(kernel_at_least("5.4.0-1-generic", 5, 12), false);
  EXPECT_EQ(kernel_at_least("4.19", 5, 12), false);
  for (const char* bad : {"", "x", "5", "5.", "5-1", ".1"}) {
    EXPECT_EQ(kernel_at_least(bad, 5, 12), std::nullopt) << bad;
  }
}

TEST(MachineFiles, FindsMounts) {
  constexpr std::string_view kText =
      "23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n"
      "27 1 254:1 / / rw,relatime shared:1 master:2 - ext4 /dev/vda1 rw,discard\n"
      "28 27 8:17 /in /mnt/a\\040b ro,nosuid - xfs /dev/sdb1 rw\n"
      "29 27 8:33 / /c rw - iso9660 /dev/sr0 ro\n"
      "30 27 8:33 / /c rw,row - x\n";
  const auto root = parse_mount(kText, 27);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->device, "254:1");
  EXPECT_EQ(root->folder, "/");
  EXPECT_EQ(root->filesystem, "ext4");
  EXPECT_EQ(root->source, "/dev/vda1");
  EXPECT_FALSE(root->read_only);
  const auto bound = parse_mount(kText, 28);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->folder, "/mnt/a b");
  EXPECT_TRUE(bound->read_only) << "the mount is";
  ASSERT_TRUE(parse_mount(kText, 29));
  EXPECT_TRUE(parse_mount(kText, 29)->read_only) << "the file system is";
  EXPECT_FALSE(parse_mount(kText, 30)) << "cut short";
  EXPECT_FALSE(parse_mount(kText, 2)) << "no such id";
  EXPECT_FALSE(parse_mount("", 0));
  EXPECT_FALSE(parse_mount("x\n\n-", 1));
}

}  // namespace
}  // namespace strata
