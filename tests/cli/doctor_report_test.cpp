// What `strata doctor` says of machines that we make up.
#include "cli/doctor_report.hpp"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

DirectoryFacts good_directory(const std::string& path, const std::string& drive) {
  DirectoryFacts d;
  d.path = path;
  d.filesystem = "xfs";
  d.device = "8:" + drive;
  d.read_only = false;
  d.direct = true;
  d.block = 4096;
  d.free_bytes = 100 * kGiB;
  d.drives = {{drive, "Fast Drive", false}};
  return d;
}

MachineFacts good_machine() {
  MachineFacts m;
  m.topology.cores = m.topology.usable_cores = 4;
  m.topology.cpus = m.topology.usable_cpus = 8;
  m.cpu_model = "Some CPU";
  m.cpu_flags = "fpu avx2 avx512f avx512bw avx512cd avx512dq avx512vl amx_tile amx_bf16";
  m.kernels = "oneDNN 2.6.3,AVX3";
  m.isa = "AVX3";
  m.library = "oneDNN 2.6.3";
  m.kernel_release = "6.1.0";
  m.available = m.machine_available = 30 * kGiB;
  m.total = 32 * kGiB;
  m.swap = m.swap_free = 8 * kGiB;
  m.huge_pages = "madvise";
  m.locks_freely = true;
  m.locked_limit = 8 << 20;
  m.files_limit = m.files_hard_limit = 1024;
  m.seccomp = false;
  m.directories = {good_directory("/a", "nvme0n1"), good_directory("/b", "nvme1n1")};
  return m;
}

Check find(const MachineFacts& m, const std::string& name) {
  for (const Check& c : check_machine(m)) {
    if (c.name == name) return c;
  }
  ADD_FAILURE() << "no check " << name;
  return Check(name);
}

/// That a check of this machine has this health, names what it costs and how to fix it, says
/// `part` somewhere, and that all others are well.
void expect_only(const MachineFacts& m, const std::string& name, Health health,
                 const std::string& part) {
  for (const Check& c : check_machine(m)) {
    if (c.name == name) continue;
    EXPECT_EQ(c.health, Health::ok) << c.name << ": " << c.cost;
  }
  const Check c = find(m, name);
  EXPECT_STREQ(health_name(c.health), health_name(health)) << name << ": " << c.found;
  EXPECT_NE((c.found + c.cost + c.fix).find(part), std::string::npos)
      << "no '" << part << "' in: " << c.found << "; " << c.cost << "; " << c.fix;
  for (const std::string& sentence : {c.cost, c.fix}) {
    EXPECT_FALSE(sentence.empty()) << name;
    EXPECT_TRUE(sentence.ends_with('.')) << sentence;
  }
}

TEST(DoctorReport, AGoodMachineHasNothingToFix) {
  for (const Check& c : check_machine(good_machine())) {
    EXPECT_EQ(c.health, Health::ok) << c.name;
    EXPECT_NE(c.found, "") << c.name;
    EXPECT_EQ(c.found.find("unknown"), std::string::npos) << c.found;
    EXPECT_EQ(c.cost + c.fix, "") << c.name;
  }
  EXPECT_NE(find(good_machine(), "cores").found.find("8 CPUs (hyperthreads)"), std::string::npos);
  EXPECT_EQ(find(good_machine(), "nvme /a").found,
            "xfs on nvme0n1 (Fast Drive), solid state; direct, blocks of 4 KiB; 100 GiB free");
}

TEST(DoctorReport, Cores) {
  MachineFacts m = good_machine();
  m.topology.cpu_quota = 2.5;
  expect_only(m, "cores", Health::slow, "quota 2.5 CPUs");
  m.topology.cpu_quota = 4;
  EXPECT_EQ(find(m, "cores").health, Health::ok) << "a quota of all usable cores";
  m.topology.usable_cores = 3;
  expect_only(m, "cores", Health::slow, "3 of 4 cores");
}

TEST(DoctorReport, Instructions) {
  MachineFacts m = good_machine();
  m.isa_limit = "DNNL_MAX_CPU_ISA=AVX2";
  expect_only(m, "instructions", Health::slow, "DNNL_MAX_CPU_ISA=AVX2 keeps");
  m = good_machine();
  m.isa = "AVX2";
  expect_only(m, "instructions", Health::slow, "use AVX2 although");
  m.cpu_flags = "fpu avx2 avx512f";
  EXPECT_EQ(find(m, "instructions").health, Health::ok) << "AVX-512 is more than its first part";
  EXPECT_NE(find(m, "instructions").found.find("AVX2, no AVX-512, no AMX"), std::string::npos);
  m.cpu_flags = "fpu sse4_1";
  expect_only(m, "instructions", Health::slow, "no AVX2");
  m.cpu_flags.reset();
  expect_only(m, "instructions", Health::unknown, "unknown");
  m = good_machine();
  m.library = "plain";
  expect_only(m, "instructions", Health::slow, "plain loops");
}

TEST(DoctorReport, Memory) {
  MachineFacts m = good_machine();
  m.group = GroupMemory{64 * kGiB, 40 * kGiB};
  EXPECT_EQ(find(m, "memory").health, Health::ok) << "a limit above what there is";
  EXPECT_NE(find(m, "memory").found.find("limit 64 GiB, 40 GiB left"), std::string::npos);
  m.group = GroupMemory{4 * kGiB, 3 * kGiB};
  expect_only(m, "memory", Health::slow, "leaves 3 GiB of the 30 GiB");
  m.available.reset();
  expect_only(m, "memory", Health::bad, "unknown available");
  m = good_machine();
  m.swap_free = 7 * kGiB;
  EXPECT_EQ(find(m, "swap").health, Health::ok) << "some is always used";
  m.swap_free = 5 * kGiB;
  expect_only(m, "swap", Health::slow, "3 GiB of 8 GiB used");
  m.swap_free.reset();
  expect_only(m, "swap", Health::unknown, "unknown");
}

TEST(DoctorReport, HugePages) {
  MachineFacts m = good_machine();
  m.huge_pages = "never";
  expect_only(m, "huge pages", Health::slow, "third of a drive's speed");
  m.huge_pages = "always";
  EXPECT_EQ(find(m, "huge pages").health, Health::ok);
  m.huge_pages_refused = true;
  expect_only(m, "huge pages", Health::slow, "refused to this process");
  m.huge_pages_refused = false;
  m.huge_pages.reset();
  expect_only(m, "huge pages", Health::unknown, "unknown");
}

TEST(DoctorReport, Limits) {
  MachineFacts m = good_machine();
  m.locked_limit = 1024;
  m.kernel_release = "5.4.0";
  EXPECT_EQ(find(m, "locked memory").health, Health::ok) << "does not hold";
  EXPECT_EQ(find(m, "locked memory").cost, "");
  m.locks_freely = false;
  m.kernel_release = "6.1.0";
  expect_only(m, "locked memory", Health::ok, "twice the budgets");  // not counted by this kernel
  m.kernel_release = "6.18.44";
  expect_only(m, "locked memory", Health::slow, "ulimit -l");
  m.kernel_release = "5.4.0";
  expect_only(m, "locked memory", Health::slow, "ulimit -l");
  m.kernel_release = "";
  expect_only(m, "locked memory", Health::slow, "ulimit -l");
  EXPECT_EQ(find(m, "libraries").found, "oneDNN 2.6.3, kernel unknown");
  m.locked_limit = kUnlimited;
  EXPECT_EQ(find(m, "locked memory").found, "limit unlimited");
  EXPECT_EQ(find(m, "locked memory").cost, "");
  m.locked_limit.reset();
  expect_only(m, "locked memory", Health::unknown, "unknown");
  m = good_machine();
  m.files_limit = 255;
  expect_only(m, "open files", Health::slow, "ulimit -n");
  m.files_hard_limit = 255;
  expect_only(m, "open files", Health::slow, "as root");
  m.files_limit = 256;
  EXPECT_EQ(find(m, "open files").health, Health::ok);
  m.files_limit.reset();
  expect_only(m, "open files", Health::unknown, "unknown");
}

TEST(DoctorReport, IoUring) {
  MachineFacts m = good_machine();
  m.no_uring = "cannot set up io_uring: Operation not permitted; long advice";
  expect_only(m, "io_uring", Health::slow, "newer");
  EXPECT_EQ(find(m, "io_uring").found, "cannot set up io_uring: Operation not permitted");
  m.seccomp = true;
  expect_only(m, "io_uring", Health::slow, "seccomp profile");
  m.seccomp.reset();
  expect_only(m, "io_uring", Health::slow, "filtered is unknown");
  m.uring_disabled = 0;
  EXPECT_EQ(find(m, "io_uring").found.find("disabled"), std::string::npos);
  m.uring_disabled = 2;
  expect_only(m, "io_uring", Health::slow, "io_uring_disabled is 2");
  EXPECT_EQ(doctor_json(check_machine(m), m)["io_uring"], false);
}

TEST(DoctorReport, DirectoriesThatStopARun) {
  MachineFacts m = good_machine();
  DirectoryFacts& d = m.directories[1];
  d.problem = "cannot create a file in /b: Read-only file system; give this user the right";
  expect_only(m, "nvme /b", Health::bad, "Give this user the right.");
  d.read_only = true;
  expect_only(m, "nvme /b", Health::bad, "Mount it for writing");
  EXPECT_EQ(find(m, "nvme /b").found,
            "cannot create a file in /b: Read-only file system (xfs, read-only)");
  d.problem = "it is odd";
  d.read_only.reset();
  d.filesystem = "";
  expect_only(m, "nvme /b", Health::bad, "it is odd");
  d = good_directory("/b", "nvme1n1");
  d.free_bytes = 0;
  expect_only(m, "nvme /b", Health::bad, "no space");
  d.free_bytes.reset();
  EXPECT_EQ(find(m, "nvme /b").health, Health::ok);
  EXPECT_NE(find(m, "nvme /b").found.find("unknown free"), std::string::npos);
  d.filesystem = "tmpfs";
  expect_only(m, "nvme /b", Health::bad, "tmpfs, which is memory");
}

TEST(DoctorReport, ADirectoryGivenTwiceStopsARun) {
  MachineFacts m = good_machine();
  m.directories[1] = m.directories[0];
  const std::vector<Check> checks = check_machine(m);
  EXPECT_EQ(checks[checks.size() - 2].health, Health::ok);
  EXPECT_EQ(checks.back().health, Health::bad);
  EXPECT_NE(checks.back().cost.find("twice"), std::string::npos) << checks.back().cost;
}

TEST(DoctorReport, DirectoriesThatAreSlow) {
  MachineFacts m = good_machine();
  DirectoryFacts& d = m.directories[1];
  d.direct = false;
  expect_only(m, "nvme /b", Health::slow, "page cache");
  d = good_directory("/b", "sda");
  d.drives[0].rotational = true;
  expect_only(m, "nvme /b", Health::slow, "rotating");
  d.drives[0].rotational.reset();
  EXPECT_EQ(find(m, "nvme /b").health, Health::ok);
  EXPECT_NE(find(m, "nvme /b").found.find("rotational or not unknown"), std::string::npos);
  d.drives.clear();
  EXPECT_EQ(find(m, "nvme /b").health, Health::ok);
  EXPECT_NE(find(m, "nvme /b").found.find("drive unknown"), std::string::npos);
  d.filesystem = "nfs4";
  expect_only(m, "nvme /b", Health::slow, "network");
  d = good_directory("/b", "nvme0n1");
  expect_only(m, "nvme /b", Health::slow, "on a drive of /a");
  d.device = "8:other";  // another file system, on the same drive
  expect_only(m, "nvme /b", Health::slow, "on a drive of /a");
  d = good_directory("/b", "nvme0n1");
  d.drives.clear();  // unknown, but the same file system
  expect_only(m, "nvme /b", Health::slow, "on a drive of /a");
}

TEST(DoctorReport, UnknownDrivesAreNotTheSame) {
  MachineFacts m = good_machine();
  for (DirectoryFacts& d : m.directories) {
    d.device = "";
    d.drives.clear();
  }
  EXPECT_EQ(find(m, "nvme /b").health, Health::ok);
}

TEST(DoctorReport, TextHasALineACheckAndWhatToDo) {
  MachineFacts m = good_machine();
  m.huge_pages = "never";
  m.swap.reset();
  const std::string text = doctor_text(check_machine(m));
  for (const char* part : {"\ncores          ok       4 of 4",
                           "\nhuge pages     slow     never\n                        cost: Tra",
                           "\n                        fix:  As root: echo", "\nnvme /a        ok ",
                           "\n\n9 ok, 1 slow, 0 bad, 1 unknown"}) {
    EXPECT_NE(("\n" + text).find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_FALSE(any_bad(check_machine(m)));
  m.directories[0].problem = "x";
  EXPECT_TRUE(any_bad(check_machine(m)));
}

TEST(DoctorReport, JsonHasNullForWhatIsUnknown) {
  MachineFacts m = good_machine();
  m.directories[1] = DirectoryFacts();
  m.directories[1].path = "/b";
  m.directories[1].problem = "x";
  const auto j = doctor_json(check_machine(m), m);
  EXPECT_EQ(j["cores"], 4u);
  EXPECT_EQ(j["cpu_quota"], nullptr);
  EXPECT_EQ(j["memory_available_bytes"], 30 * kGiB);
  EXPECT_EQ(j["isa"], "AVX3");
  EXPECT_EQ(j["io_uring"], true);
  EXPECT_EQ(j["checks"].size(), 11u);
  EXPECT_EQ(j["checks"][0]["name"], "cores");
  EXPECT_EQ(j["checks"][0]["cost"], nullptr);
  const auto& a = j["directories"][0];
  EXPECT_EQ(a["path"], "/a");
  EXPECT_EQ(a["filesystem"], "xfs");
  EXPECT_EQ(a["direct"], true);
  EXPECT_EQ(a["block"], 4096u);
  EXPECT_EQ(a["free_bytes"], 100 * kGiB);
  EXPECT_EQ(a["drive"], "nvme0n1 (Fast Drive)");
  EXPECT_EQ(a["rotational"], false);
  const auto& b = j["directories"][1];
  EXPECT_EQ(b["problem"], "x");
  for (const char* key :
       {"filesystem", "read_only", "direct", "block", "free_bytes", "drive", "rotational"}) {
    ASSERT_TRUE(b.contains(key)) << key;
    EXPECT_EQ(b[key], nullptr) << key;
  }
}

}  // namespace
}  // namespace strata
