// Memory registered with io_uring: its pages are those of the time of registering, so transfers go
// on when the process may no longer touch them, where others fail.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/offload/nvme/nvme_rig.hpp"

namespace strata {
namespace {

using testing::NvmeRig;
using testing::TemporaryDirectories;

constexpr uint32_t kUnits = 4;
constexpr size_t kUnit = 256 << 10, kRequest = 64 << 10;

struct Registered {
  explicit Registered(size_t buffer_bytes, const std::string& engine = "io_uring")
      : rig(options(directories, buffer_bytes, engine)) {}

  static NvmeOptions options(const TemporaryDirectories& d, size_t buffer_bytes,
                             const std::string& engine) {
    NvmeOptions o;
    o.directories = d.paths();
    o.unit_bytes = kUnit;
    o.units = kUnits;
    o.request_bytes = kRequest;
    o.buffer_bytes = buffer_bytes;
    o.checksums = false;  // which would touch the memory
    o.engine = engine;
    return o;
  }
  void add() { rig.store.add_memory({rig.memory.base(), kUnits * kUnit}); }
  void forbid(int access) const { ::mprotect(rig.memory.base(), rig.memory.bytes(), access); }

  /// Writes a unit, then reads it, without access to its memory. False: a transfer failed.
  bool passes_without_access(uint32_t u) {
    rig.fill(u, 1);
    const auto expected = rig.content(u);
    try {
      forbid(PROT_NONE);
      rig.write(u);
      rig.finish(rig.store.writer());
      forbid(PROT_READ | PROT_WRITE);
      rig.clear(u);
      forbid(PROT_NONE);
      rig.read(u);
      rig.finish(rig.store.reader());
    } catch (const NvmeError&) {
      forbid(PROT_READ | PROT_WRITE);
      return false;
    }
    forbid(PROT_READ | PROT_WRITE);
    EXPECT_EQ(rig.content(u), expected);
    return true;
  }

  TemporaryDirectories directories{1};
  NvmeRig rig;
};

/// Pages past the cache are handed to the drive, not copied by the process.
class NvmeMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_uring().empty()) GTEST_SKIP() << why_no_uring();
    Registered r(size_t{1} << 30);
    r.add();
    if (!r.rig.store.memory_reason().empty()) GTEST_SKIP() << r.rig.store.memory_reason();
  }
};

TEST_F(NvmeMemory, WhatIsAddedIsUsed) {
  Registered r(size_t{1} << 30);
  r.add();
  for (uint32_t u = 0; u < kUnits; ++u) EXPECT_TRUE(r.passes_without_access(u)) << "unit " << u;
}

TEST_F(NvmeMemory, WhatIsNotAddedIsNot) {
  Registered none(size_t{1} << 30), off(0), removed(size_t{1} << 30);
  off.add();
  removed.add();
  removed.rig.store.remove_memory({removed.rig.memory.base(), kUnits * kUnit});
  EXPECT_FALSE(none.passes_without_access(0));
  EXPECT_FALSE(off.passes_without_access(0));
  EXPECT_FALSE(removed.passes_without_access(0)) << "another arena may come to lie there";
}

TEST_F(NvmeMemory, RequestsAreInsideOneBuffer) {
  Registered whole(kRequest), across(kRequest * 3 / 2);
  whole.add();
  across.add();
  EXPECT_TRUE(whole.passes_without_access(1));
  EXPECT_FALSE(across.passes_without_access(1)) << "the second request is in two buffers";
}

TEST_F(NvmeMemory, RequestsAcrossBuffersGoAsWell) {
  Registered r(kRequest * 3 / 2);
  r.add();
  for (uint32_t u = 0; u < kUnits; ++u) r.rig.fill(u, 3);
  std::vector<std::vector<std::byte>> expected;
  for (uint32_t u = 0; u < kUnits; ++u) {
    expected.push_back(r.rig.content(u));
    r.rig.write(u);
  }
  r.rig.finish(r.rig.store.writer());
  for (uint32_t u = 0; u < kUnits; ++u) {
    r.rig.clear(u);
    r.rig.read(u);
  }
  r.rig.finish(r.rig.store.reader());
  for (uint32_t u = 0; u < kUnits; ++u) EXPECT_EQ(r.rig.content(u), expected[u]) << "unit " << u;
}

TEST_F(NvmeMemory, ComesAndGoesAsOftenAsArenasDo) {
  Registered r(kRequest);
  for (int i = 0; i < 2000; ++i) {  // more than the ring's table has slots, four each
    r.add();
    r.rig.store.remove_memory({r.rig.memory.base(), kUnits * kUnit});
  }
  r.add();
  EXPECT_EQ(r.rig.store.memory_reason(), "");
  EXPECT_TRUE(r.passes_without_access(2));
}

TEST(NvmeMemoryThreads, HaveNothingToRegister) {
  Registered r(size_t{1} << 30, "threads");
  r.add();
  EXPECT_EQ(r.rig.store.memory_reason(), "");
  r.rig.store.remove_memory({r.rig.memory.base(), kUnits * kUnit});
}

}  // namespace
}  // namespace strata
