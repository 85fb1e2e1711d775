#include "runtime/directory_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tests/folder.hpp"
#include "tests/runtime/files/faulty_files.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// A sys file system of our own, with block devices as the kernel shows them.
class DriveProbe : public ::testing::Test {
 protected:
  void add(const std::string& number, const std::string& name) {
    fs::create_directories(sys_.path("devices/" + name + "/slaves"));
    fs::create_directories(sys_.path("dev/block"));
    fs::create_symlink(sys_.path("devices/" + name), sys_.path("dev/block/" + number));
  }
  void set(const std::string& name, const std::string& file, const std::string& text) {
    const std::string path = "devices/" + name + "/" + file;
    fs::create_directories(fs::path(sys_.path(path)).parent_path());
    sys_.write(path, text);
  }
  void make_of(const std::string& name, const std::string& below) {
    fs::create_symlink(sys_.path("devices/" + below),
                       sys_.path("devices/" + name + "/slaves/" + below));
  }
  std::vector<Drive> probe(const std::string& number) { return probe_drives(number, sys_.path()); }

  Folder sys_;
};

TEST_F(DriveProbe, GivesTheDriveOfADeviceAndOfAPartition) {
  add("259:0", "nvme0n1");
  set("nvme0n1", "device/model", "Fast Drive 2TB      \n");
  set("nvme0n1", "queue/rotational", "0\n");
  add("259:1", "nvme0n1/nvme0n1p1");
  set("nvme0n1/nvme0n1p1", "partition", "1\n");
  const std::vector<Drive> expected = {{"nvme0n1", "Fast Drive 2TB", false}};
  EXPECT_EQ(probe("259:0"), expected);
  EXPECT_EQ(probe("259:1"), expected);
  EXPECT_TRUE(probe("259:2").empty());
  EXPECT_TRUE(probe("").empty());
}

TEST_F(DriveProbe, GivesTheDrivesUnderVolumes) {
  add("8:0", "sda");
  set("sda", "queue/rotational", "1\n");
  add("8:1", "sda/sda1");
  set("sda/sda1", "partition", "1\n");
  add("8:16", "sdb");
  add("9:0", "md0");
  fs::create_symlink(sys_.path("devices/sda/sda1"), sys_.path("devices/md0/slaves/sda1"));
  make_of("md0", "sdb");
  add("253:0", "dm-0");
  set("dm-0", "queue/rotational", "0\n");
  make_of("dm-0", "md0");
  auto drives = probe("253:0");
  std::sort(drives.begin(), drives.end(), [](auto& a, auto& b) { return a.name < b.name; });
  const std::vector<Drive> expected = {{"sda", "", true}, {"sdb", "", std::nullopt}};
  EXPECT_EQ(drives, expected);
  make_of("md0", "dm-0");  // a circle ends
  EXPECT_EQ(probe("253:0").size(), 2u);
}

TEST_F(DriveProbe, DoesNotBelieveVirtualDrives) {
  add("254:0", "vda");
  set("vda", "queue/rotational", "1\n");
  fs::create_directories(sys_.path("bus/virtio"));
  fs::create_directories(sys_.path("devices/vda/device"));
  EXPECT_EQ(probe("254:0").at(0).rotational, true) << "on no bus we know";
  fs::create_symlink(sys_.path("bus/virtio"), sys_.path("devices/vda/device/subsystem"));
  EXPECT_EQ(probe("254:0").at(0).rotational, std::nullopt);
}

TEST(DirectoryFacts, RotationalIsKnownWhenADriveIsOrAllSay) {
  DirectoryFacts d;
  EXPECT_EQ(d.rotational(), std::nullopt);
  d.drives = {{"a", "", false}};
  EXPECT_EQ(d.rotational(), false);
  d.drives = {{"a", "", false}, {"b", "", std::nullopt}};
  EXPECT_EQ(d.rotational(), std::nullopt);
  d.drives = {{"b", "", std::nullopt}, {"a", "", true}};
  EXPECT_EQ(d.rotational(), true);
}

TEST(DirectoryProbe, LooksAtARealDirectoryAndLeavesNothing) {
  const Folder folder;
  fs::create_directory_symlink(folder.path(), folder.path("link"));
  const DirectoryFacts d = probe_directory(folder.path("link"));
  EXPECT_EQ(d.problem, "");
  EXPECT_EQ(d.path, folder.path("link"));
  EXPECT_FALSE(d.filesystem.empty());
  EXPECT_EQ(d.read_only, false);
  EXPECT_TRUE(d.direct.has_value());
  EXPECT_GE(d.block.value_or(0), 512u);
  EXPECT_TRUE(d.free_bytes.has_value());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(DirectoryProbe, SaysWhatIsWrongAndNothingElse) {
  const Folder folder;
  const DirectoryFacts none = probe_directory(folder.path("none"));
  EXPECT_NE(none.problem.find("cannot create a file in " + folder.path("none")), std::string::npos);
  EXPECT_EQ(none.filesystem, "");
  EXPECT_EQ(none.read_only, std::nullopt);
  EXPECT_EQ(none.direct, std::nullopt);
  EXPECT_EQ(none.block, std::nullopt);
  EXPECT_EQ(none.free_bytes, std::nullopt);
  EXPECT_TRUE(none.drives.empty());
  EXPECT_NE(probe_directory(folder.write("file", "x")).problem, "") << "no directory";
}

FileFault write_fault(int error) {
  FileFault f;
  f.call = FileCall::write;
  f.error = error;
  return f;
}

TEST(DirectoryProbe, WritesToTheFile) {
  const Folder folder;
  FaultyFiles files;
  files.faults = {write_fault(ENOSPC)};
  files.free = 5;
  const DirectoryFacts full = probe_directory(folder.path(), files);
  EXPECT_NE(full.problem.find("No space left"), std::string::npos) << full.problem;
  EXPECT_EQ(full.free_bytes, 5u);
  files.faults = {write_fault(EINTR)};
  EXPECT_EQ(probe_directory(folder.path(), files).problem, "") << "tried again";
  EXPECT_EQ(files.fired(), 1u);
  files.faults = {write_fault(EAGAIN)};
  files.faults[0].goes_on = true;
  EXPECT_NE(probe_directory(folder.path(), files).problem, "") << "not for ever";
}

}  // namespace
}  // namespace strata
