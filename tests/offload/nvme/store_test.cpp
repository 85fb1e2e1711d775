// What every engine must do, on one to three directories.
#include "offload/nvme/store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/offload/nvme/nvme_rig.hpp"

namespace strata {
namespace {

using testing::NvmeRig;
using testing::TemporaryDirectories;

struct Case {
  std::string engine;
  size_t directories;
  size_t unit_bytes;
  uint32_t units, depth, request_bytes;

  std::string name() const { return engine + "_" + std::to_string(directories); }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

std::vector<std::string> engines() {
  std::vector<std::string> out = {"threads"};
  if (why_no_uring().empty()) out.push_back("io_uring");
  return out;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::string& e : engines()) {
    out.push_back({e, 1, 4096, 1, 1, 4096});
    out.push_back({e, 2, 3 << 20, 7, 4, 1 << 20});
    out.push_back({e, 3, (1 << 20) + 4096, 10, 32, 256 << 10});
  }
  return out;
}

NvmeOptions options(const Case& c, const TemporaryDirectories& d) {
  NvmeOptions o;
  o.directories = d.paths();
  o.unit_bytes = c.unit_bytes;
  o.units = c.units;
  o.engine = c.engine;
  o.depth = c.depth;
  o.request_bytes = c.request_bytes;
  return o;
}

class NvmeStoreConcurrency : public ::testing::TestWithParam<Case> {};

TEST_P(NvmeStoreConcurrency, BeginsWithZeros) {
  const TemporaryDirectories d(GetParam().directories);
  NvmeRig rig(options(GetParam(), d));
  for (uint32_t u = 0; u < GetParam().units; ++u) {
    rig.clear(u);
    rig.read(u);
  }
  rig.finish(rig.store.reader());
  for (uint32_t u = 0; u < GetParam().units; ++u) {
    const auto c = rig.content(u);
    EXPECT_TRUE(std::all_of(c.begin(), c.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_P(NvmeStoreConcurrency, ReturnsTheNewestContentInAnyOrder) {
  const TemporaryDirectories d(GetParam().directories);
  NvmeRig rig(options(GetParam(), d));
  std::mt19937 random(7);
  std::vector<std::vector<std::byte>> expected(GetParam().units);
  std::vector<uint32_t> order(GetParam().units);
  for (uint32_t u = 0; u < order.size(); ++u) order[u] = u;
  for (uint32_t version = 1; version <= 4; ++version) {
    std::shuffle(order.begin(), order.end(), random);
    for (const uint32_t u : order) {
      if (version > 1 && random() % 3 == 0) continue;  // keeps its older content
      rig.fill(u, version);
      expected[u] = rig.content(u);
      rig.write(u);
    }
    rig.finish(rig.store.writer());
    std::shuffle(order.begin(), order.end(), random);
    for (const uint32_t u : order) {
      rig.clear(u);
      rig.read(u);
    }
    rig.finish(rig.store.reader());
    for (const uint32_t u : order) EXPECT_EQ(rig.content(u), expected[u]) << "unit " << u;
  }
}

TEST_P(NvmeStoreConcurrency, StreamsWaitForEachOther) {
  const TemporaryDirectories d(GetParam().directories);
  NvmeOptions o = options(GetParam(), d);
  o.delay_seed = 3;
  NvmeRig rig(o);
  NvmeStream &reader = rig.store.reader(), &writer = rig.store.writer();
  std::vector<Fence> written, read;
  std::vector<std::vector<std::byte>> expected;
  for (uint32_t u = 0; u < o.units; ++u) {
    rig.fill(u, 9);
    expected.push_back(rig.content(u));
    rig.write(u);
    written.push_back(writer.record());
    // Each read goes to the memory that the write came from.
    reader.wait(written.back());
    rig.read(u);
    read.push_back(reader.record());
    writer.wait(read.back());
  }
  read.back().wait_done();
  for (uint32_t u = 0; u < o.units; ++u) {
    EXPECT_TRUE(written[u].done() && read[u].done()) << "fences complete in order";
    EXPECT_EQ(rig.content(u), expected[u]);
  }
  rig.finish(writer);
}

TEST_P(NvmeStoreConcurrency, LaterCopiesOfAStreamWinWithoutAWait) {
  const Case& c = GetParam();
  if (c.units < 2) GTEST_SKIP() << "one unit has no other";
  const TemporaryDirectories d(c.directories);
  NvmeRig rig(options(c, d));
  NvmeStream &reader = rig.store.reader(), &writer = rig.store.writer();
  rig.fill(0, 1);
  rig.fill(1, 2);
  const auto first = rig.content(0), second = rig.content(1);
  for (int i = 0; i < 20; ++i) {
    writer.copy(rig.unit(0), rig.mine(1), c.unit_bytes);
    writer.copy(rig.unit(0), rig.mine(0), c.unit_bytes);
    writer.copy(rig.unit(1), rig.mine(1), c.unit_bytes);
  }
  rig.finish(writer);
  for (int i = 0; i < 20; ++i) {
    reader.copy(rig.mine(0), rig.unit(0), c.unit_bytes);
    reader.copy(rig.mine(0), rig.unit(1), c.unit_bytes);
    reader.copy(rig.mine(1), rig.unit(0), c.unit_bytes);
  }
  rig.finish(reader);
  EXPECT_EQ(rig.content(0), second);
  EXPECT_EQ(rig.content(1), first);
}

TEST_P(NvmeStoreConcurrency, RunsLongerThanItsRings) {
  const Case& c = GetParam();
  if (c.unit_bytes > 4096) GTEST_SKIP() << "small units are enough for this";
  const TemporaryDirectories d(c.directories);
  NvmeRig rig(options(c, d));
  constexpr uint32_t kCopies = 9000;  // with a fence each
  Fence last;
  for (uint32_t i = 0; i < kCopies; ++i) {
    rig.read(0);
    last = rig.store.reader().record();
  }
  last.wait_done();
  EXPECT_EQ(rig.store.bytes_read(), uint64_t{kCopies} * c.unit_bytes);
}

TEST_P(NvmeStoreConcurrency, CountsBytes) {
  const Case& c = GetParam();
  const TemporaryDirectories d(c.directories);
  NvmeRig rig(options(c, d));
  const uint64_t state = uint64_t{c.units} * c.unit_bytes;
  EXPECT_EQ(rig.store.bytes_written(), state) << "written through once";
  EXPECT_EQ(rig.store.bytes_read(), 0u);
  rig.read(0);
  rig.finish(rig.store.reader());
  EXPECT_EQ(rig.store.bytes_read(), c.unit_bytes);
}

TEST_P(NvmeStoreConcurrency, LeavesNoNameBehind) {
  const TemporaryDirectories d(GetParam().directories);
  {
    NvmeRig rig(options(GetParam(), d));
    EXPECT_TRUE(d.empty()) << "not even while it runs: a crash leaves nothing";
  }
  EXPECT_TRUE(d.empty());
}

TEST_P(NvmeStoreConcurrency, WholeUnitsOnly) {
  const TemporaryDirectories d(GetParam().directories);
  const NvmeOptions o = options(GetParam(), d);
  const auto fails = [&](size_t offset, size_t bytes) {
    NvmeRig rig(o);
    rig.store.writer().copy(rig.store.base() + offset, rig.mine(0), bytes);
    EXPECT_THROW(rig.finish(rig.store.writer()), StateError) << offset << ", " << bytes;
  };
  fails(512, o.unit_bytes);
  fails(0, o.unit_bytes - 512);
  fails(o.units * o.unit_bytes, o.unit_bytes);
}

INSTANTIATE_TEST_SUITE_P(Engines, NvmeStoreConcurrency, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

template <class E>
std::string refusal(const NvmeOptions& o) {
  try {
    const NvmeStore store(o);
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NvmeStore, RefusesOptionsThatMakeNoSense) {
  const TemporaryDirectories d(1);
  const NvmeOptions good = options({"threads", 1, 8192, 2, 4, 4096}, d);
  const auto expect = [&](const std::string& part, auto edit) {
    NvmeOptions o = good;
    edit(o);
    const std::string text = refusal<ConfigError>(o);
    EXPECT_TRUE(contains(text, part)) << text;
  };
  expect("no directory", [](NvmeOptions& o) { o.directories.clear(); });
  expect("given twice", [](NvmeOptions& o) { o.directories.push_back(o.directories[0]); });
  expect("nothing to keep", [](NvmeOptions& o) { o.units = 0; });
  expect("must be positive", [](NvmeOptions& o) { o.timeout_seconds = 0; });
  expect("an address can name", [](NvmeOptions& o) { o.unit_bytes = size_t{1} << 62; });
  expect("depth", [](NvmeOptions& o) { o.depth = 0; });
  expect("'aio' is not known", [](NvmeOptions& o) { o.engine = "aio"; });
  expect("multiples of", [](NvmeOptions& o) { o.unit_bytes = 5000; });
  EXPECT_TRUE(d.empty());
}

TEST(NvmeStore, NamesADirectoryItCannotUse) {
  const TemporaryDirectories d(1);
  NvmeOptions o = options({"threads", 1, 8192, 2, 4, 4096}, d);
  o.directories = {d.paths()[0] + "/missing"};
  const std::string text = refusal<IoError>(o);
  EXPECT_TRUE(contains(text, o.directories[0])) << text;
  EXPECT_TRUE(contains(text, "create it first")) << text;
}

TEST(NvmeStore, SaysWhenThereIsNoSpaceBeforeWriting) {
  const TemporaryDirectories d(1);
  NvmeOptions o = options({"threads", 1, size_t{1} << 30, 1u << 16, 4, 1 << 20}, d);
  const std::string text = refusal<IoError>(o);
  EXPECT_TRUE(contains(text, d.paths()[0])) << text;
  EXPECT_TRUE(contains(text, "70368744177664 bytes needed")) << text;
}

TEST(NvmeStore, WorksWithoutDirectTransfers) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "there is no tmpfs at /dev/shm";
  const TemporaryDirectories d(1, "/dev/shm");
  NvmeRig rig(options({"auto", 1, 8192, 3, 4, 4096}, d));
  EXPECT_FALSE(rig.store.direct());
  rig.fill(1, 5);
  const auto expected = rig.content(1);
  rig.write(1);
  rig.finish(rig.store.writer());
  rig.clear(1);
  rig.read(1);
  rig.finish(rig.store.reader());
  EXPECT_EQ(rig.content(1), expected);
}

}  // namespace
}  // namespace strata
