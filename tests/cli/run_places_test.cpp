// NVMe directories and systems that are not as they should be (docs/faults.md).
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#include "tests/cli/command.hpp"

namespace strata {
namespace {

/// From here on the process cannot make a ring, as in many containers.
void forbid_io_uring() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(filter), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(99);
  }
}

class RunPlaces : public ::testing::Test {
 protected:
  RunPlaces() {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    data_ = folder_.write("text.txt", text);
    std::filesystem::create_directories(folder_.path("drive"));
  }
  CommandOutcome train(const std::string& drive, const std::string& flags = "",
                       const std::function<void()>& before_exec = {}) const {
    return strata_command(
        "train --model gpt2:L3,D32,H2,V256,T16 --batch 2 --threads 1 --steps 3 "
        "--device-mem 1GiB --no-checkpoint --nvme " +
            drive + " --data " + data_ + " --out " + folder_.path("run") + " " + flags,
        {}, before_exec);
  }
  std::string state(const CommandOutcome& o) const {
    EXPECT_EQ(o.code, 0) << o.err << o.out;
    const size_t at = o.out.find("\nstate ");
    EXPECT_NE(at, std::string::npos) << o.out;
    return at == std::string::npos ? "none" : o.out.substr(at, 30);
  }

  Folder folder_;
  std::string data_;
};

TEST_F(RunPlaces, WithoutIoUringThreadsDoIt) {
  const CommandOutcome o = train(folder_.path("drive"), "", forbid_io_uring);
  if (o.code == 99) GTEST_SKIP() << "this kernel takes no seccomp filter";
  EXPECT_EQ(state(o), state(train(folder_.path("drive"))));
  EXPECT_NE(o.out.find("through threads (io_uring does not work here: "), std::string::npos)
      << o.out;
  const CommandOutcome asked =
      train(folder_.path("drive"), "--nvme-engine io_uring", forbid_io_uring);
  EXPECT_NE(asked.code, 0);
  EXPECT_NE(asked.err.find("io_uring"), std::string::npos) << asked.err;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

TEST_F(RunPlaces, WithoutLockedMemoryNothingChangesAndItIsSaidOnce) {
  const CommandOutcome o = train(folder_.path("drive"), "", [] {
    const rlimit none = {0, 0};
    // Root is not limited; where the privilege cannot be taken away, it is not there.
    ::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) ::_exit(99);
  });
  const CommandOutcome with = train(folder_.path("drive"));
  EXPECT_EQ(state(o), state(with));
  if (o.out.find("through io_uring") == std::string::npos) GTEST_SKIP() << o.out;
  const std::string said = "cannot register memory with io_uring: ";
  EXPECT_EQ(count_of(o.out + o.err, said), 1u) << o.out << o.err;
  EXPECT_LE(count_of(with.out + with.err, said), 1u) << "this test's own limit may be low";
}

TEST_F(RunPlaces, MemoryFileSystemsWorkAndAreNamed) {
  struct statfs s {};
  if (::statfs("/dev/shm", &s) != 0 || s.f_type != TMPFS_MAGIC) GTEST_SKIP() << "no tmpfs here";
  std::string path = "/dev/shm/strata_XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const CommandOutcome o = train(path);
  EXPECT_TRUE(std::filesystem::is_empty(path));
  std::filesystem::remove_all(path);
  EXPECT_EQ(state(o), state(train(folder_.path("drive"))));
  EXPECT_NE(o.out.find(", by way of the page cache"), std::string::npos) << o.out;
}

TEST_F(RunPlaces, DirectoriesThatCannotBeWrittenAreRefused) {
  for (const std::string& path : {folder_.path("none"), data_}) {
    const CommandOutcome o = train(path);
    EXPECT_NE(o.code, 0) << path;
    EXPECT_NE(o.err.find(path), std::string::npos) << o.err;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  }
}

TEST_F(RunPlaces, NoPageOfADirectFileStaysInThePageCache) {
  const CommandOutcome o = train(folder_.path("drive"), "--json");
  ASSERT_EQ(o.code, 0) << o.err;
  if (o.err.find("by way of the page cache") != std::string::npos) {
    GTEST_SKIP() << "no direct transfers in " << folder_.path("drive");
  }
  EXPECT_EQ(o.json()["nvme_cached_bytes"], 0u);
}

}  // namespace
}  // namespace strata
