// `strata doctor`, run as a user runs it.
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>

#include <algorithm>

#include "tests/cli/command.hpp"

namespace strata {
namespace {

using Json = nlohmann::json;

Json doctor(const std::string& arguments, int code) {
  const CommandOutcome o = strata_command("doctor --json " + arguments);
  EXPECT_EQ(o.code, code) << o.err;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << "one object on stdout";
  EXPECT_NE(o.err.find("io_uring"), std::string::npos) << "the text is on stderr";
  return o.json();
}

Json check_named(const Json& j, const std::string& name) {
  for (const Json& c : j["checks"]) {
    if (c["name"] == name) return c;
  }
  ADD_FAILURE() << "no check " << name << " in " << j["checks"];
  return {};
}

bool is_memory(const std::string& path) {
  struct statfs s {};
  return ::statfs(path.c_str(), &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC);
}

TEST(RunDoctor, LooksAtThisMachine) {
  const Folder folder;
  const Json j = doctor("--nvme " + folder.path(), is_memory(folder.path()) ? 1 : 0);
  expect_bytes(j, {"cores", "memory_available_bytes"});
  EXPECT_GE(j["cores"], 1u);
  EXPECT_TRUE(j["io_uring"].is_boolean());
  EXPECT_NE(j["isa"], "");
  for (const char* name : {"cores", "instructions", "memory", "swap", "huge pages", "locked memory",
                           "open files", "io_uring", "libraries"}) {
    const Json c = check_named(j, name);
    EXPECT_NE(c["status"], "bad") << c;
    EXPECT_NE(c["found"], "") << c;
    EXPECT_EQ(c["cost"].is_null(), c["status"] == "ok") << c;
    EXPECT_EQ(c["fix"].is_null(), c["status"] == "ok") << c;
  }
  ASSERT_EQ(j["directories"].size(), 1u);
  const Json& d = j["directories"][0];
  EXPECT_EQ(d["path"], folder.path());
  EXPECT_TRUE(d["direct"].is_boolean());
  EXPECT_TRUE(d["filesystem"].is_string());
  expect_bytes(d, {"block", "free_bytes"});
  EXPECT_TRUE(d["problem"].is_null());
}

TEST(RunDoctor, LooksAtTheWorkingDirectoryUnlessToldOtherwise) {
  const CommandOutcome o = strata_command("doctor");
  EXPECT_EQ(o.err, "");
  EXPECT_NE(o.out.find("\nnvme . "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find(" ok, "), std::string::npos) << o.out;
}

TEST(RunDoctor, ADirectoryThatCannotBeUsedIsBad) {
  const Folder folder;
  folder.write("file", "x");
  for (const std::string& path : {folder.path("none"), folder.path("file"), std::string("/proc")}) {
    const Json j = doctor("--nvme " + path, 1);
    const Json c = check_named(j, "nvme " + path);
    EXPECT_EQ(c["status"], "bad") << c;
    EXPECT_NE(c["found"].get<std::string>().find("cannot create a file in " + path),
              std::string::npos)
        << c;
    EXPECT_TRUE(j["directories"][0]["problem"].is_string());
    EXPECT_TRUE(j["directories"][0]["direct"].is_null());
  }
}

TEST(RunDoctor, AReadOnlyDirectoryIsBad) {
  if (::geteuid() == 0) GTEST_SKIP() << "this user may write to any folder";
  const Folder folder;
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const Json j = doctor("--nvme " + folder.path(), 1);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(check_named(j, "nvme " + folder.path())["status"], "bad");
}

TEST(RunDoctor, MemoryIsNoDrive) {
  const std::string path = "/dev/shm";
  if (!is_memory(path) || ::access(path.c_str(), W_OK) != 0) {
    GTEST_SKIP() << path << " is no tmpfs that this user may write to";
  }
  const Json j = doctor("--nvme " + path, 1);
  EXPECT_EQ(check_named(j, "nvme " + path)["status"], "bad");
  EXPECT_EQ(j["directories"][0]["direct"], false);
  EXPECT_TRUE(j["directories"][0]["drive"].is_null());
}

TEST(RunDoctor, TwoDirectoriesOfOneFileSystemGainNothing) {
  const Folder folder;
  if (is_memory(folder.path())) GTEST_SKIP() << folder.path() << " is memory, which is bad anyway";
  std::filesystem::create_directory(folder.path("a"));
  std::filesystem::create_directory(folder.path("b"));
  const Json j = doctor("--nvme " + folder.path("a") + "," + folder.path("b"), 0);
  const Json c = check_named(j, "nvme " + folder.path("b"));
  EXPECT_EQ(c["status"], "slow");
  EXPECT_NE(c["cost"].get<std::string>().find("drive of " + folder.path("a")), std::string::npos);
}

TEST(RunDoctor, SeesTheLimitOfOpenFiles) {
  const Folder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {200, before.rlim_max};
  if (before.rlim_max < 256) GTEST_SKIP() << "the limit is below 256 here";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const Json c = check_named(doctor("--nvme " + folder.path(), is_memory(folder.path()) ? 1 : 0),
                             "open files");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(c["status"], "slow");
  EXPECT_EQ(c["found"], "200");
  EXPECT_EQ(c["fix"], "Raise it: ulimit -n 1024.");
}

TEST(RunDoctor, SeesWhatHoldsTheLibraryBack) {
  ::setenv("DNNL_MAX_CPU_ISA", "SSE41", 1);
  const CommandOutcome o = strata_command("doctor");
  ::unsetenv("DNNL_MAX_CPU_ISA");
  EXPECT_NE(o.out.find("DNNL_MAX_CPU_ISA=SSE41 keeps"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace strata
