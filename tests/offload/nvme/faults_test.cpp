// Every fault of a transfer, on every engine: the transfer goes on, or one message names the file,
// the place and the unit, and nobody waits for ever.
#include <gtest/gtest.h>

#include "tests/offload/nvme/faulty_sink.hpp"
#include "tests/offload/nvme/nvme_rig.hpp"

namespace strata {
namespace {

using testing::Fault;
using testing::FaultKind;
using testing::FaultySink;
using testing::NvmeRig;
using testing::TemporaryDirectories;

constexpr uint32_t kUnits = 4;
constexpr size_t kUnit = 128 << 10, kRequest = 64 << 10;  // two transfers a unit

struct Case {
  std::string engine;
  FaultKind kind;
  bool on_write;
  const char* message;  // null: the transfer goes on

  std::string name() const {
    constexpr const char* kNames[] = {"none", "short",  "empty", "eagain",
                                      "eio",  "enospc", "flip",  "hang"};
    return engine + "_" + kNames[static_cast<size_t>(kind)] + (on_write ? "_write" : "_read");
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

std::vector<Case> cases() {
  std::vector<Case> out;
  std::vector<std::string> engines = {"threads"};
  if (why_no_uring().empty()) engines.push_back("io_uring");
  for (const std::string& e : engines) {
    for (const bool write : {false, true}) {
      out.push_back({e, FaultKind::short_transfer, write, nullptr});
      out.push_back({e, FaultKind::eagain, write, nullptr});
      out.push_back({e, FaultKind::empty_transfer, write,
                     write ? "No space left" : "the file ends before that"});
      out.push_back({e, FaultKind::eio, write, "the drive failed"});
      out.push_back({e, FaultKind::hang, write, "has not come back for 1 s"});
    }
    out.push_back({e, FaultKind::enospc, true, "No space left on device; free space there"});
    out.push_back({e, FaultKind::flip, false, "checksum mismatch"});
  }
  return out;
}

NvmeOptions options(const TemporaryDirectories& d) {
  NvmeOptions o;
  o.directories = d.paths();
  o.unit_bytes = kUnit;
  o.units = kUnits;
  o.request_bytes = kRequest;
  o.depth = 1;  // so that the order of completion is known
  return o;
}

class NvmeFaultConcurrency : public ::testing::TestWithParam<Case> {};

/// Writes all units, reads them back, and says what went wrong; empty: nothing.
std::string run(NvmeRig& rig, std::vector<std::vector<std::byte>>& expected) {
  try {
    for (uint32_t u = 0; u < kUnits; ++u) {
      rig.fill(u, 1);
      expected.push_back(rig.content(u));
      rig.write(u);
    }
    rig.finish(rig.store.writer());
    for (uint32_t u = 0; u < kUnits; ++u) {
      rig.clear(u);
      rig.read(u);
    }
    rig.finish(rig.store.reader());
  } catch (const NvmeError& e) {
    EXPECT_EQ(e.unit(), 1u);
    return e.what();
  }
  return {};
}

TEST_P(NvmeFaultConcurrency, GoesOnOrNamesThePlace) {
  const Case& c = GetParam();
  const TemporaryDirectories d(1);
  Fault fault;
  fault.kind = c.kind;
  fault.on_write = c.on_write;
  // The third transfer, the first of unit 1; the store first writes everything once.
  fault.nth = 3 + (c.on_write ? kUnits * 2 : 0);
  NvmeOptions o = options(d);
  o.engine = c.engine;
  o.timeout_seconds = c.kind == FaultKind::hang ? 1 : 60;
  NvmeRig rig(o, FaultySink::wrap, &fault);
  std::vector<std::vector<std::byte>> expected;
  const std::string text = run(rig, expected);
  if (c.message == nullptr) {
    EXPECT_EQ(text, "");
    for (uint32_t u = 0; u < kUnits; ++u) EXPECT_EQ(rig.content(u), expected[u]) << "unit " << u;
    return;
  }
  for (const std::string& part :
       {std::string(c.message), "the unnamed file in " + d.paths()[0],
        "offset " + std::to_string(kUnit), std::string(c.on_write ? "write" : "read")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  NvmeStream& failed = c.on_write ? rig.store.writer() : rig.store.reader();
  failed.record_always().wait_done();
  EXPECT_THROW(failed.record(), NvmeError) << "a failed stream stays failed";
  fault.released = true;
}

INSTANTIATE_TEST_SUITE_P(Engines, NvmeFaultConcurrency, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

TEST(NvmeFailureConcurrency, TheFirstStays) {
  const TemporaryDirectories d(1);
  Fault fault;
  fault.kind = FaultKind::flip;
  fault.nth = 1;
  NvmeRig rig(options(d), FaultySink::wrap, &fault);
  for (uint32_t u = 0; u < kUnits; ++u) rig.read(u);
  NvmeStream& reader = rig.store.reader();
  reader.record_always().wait_done();
  EXPECT_EQ(rig.store.bytes_read(), 0u) << "nothing after a failure counts";
  for (int i = 0; i < 2; ++i) {
    try {
      reader.record();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const NvmeError& e) {
      EXPECT_EQ(e.unit(), 0u);
    }
    fault.seen = 0;
    rig.read(2);
    reader.record_always().wait_done();
  }
}

TEST(NvmeFault, WithoutChecksumsAFlippedBitPasses) {
  const TemporaryDirectories d(1);
  Fault fault;
  fault.kind = FaultKind::flip;
  fault.nth = 3;
  NvmeOptions o = options(d);
  o.checksums = false;
  NvmeRig rig(o, FaultySink::wrap, &fault);
  std::vector<std::vector<std::byte>> expected;
  EXPECT_EQ(run(rig, expected), "");
  EXPECT_NE(rig.content(1), expected[1]);
}

TEST(NvmeFault, TheFirstWritingIsCheckedToo) {
  const TemporaryDirectories d(1);
  Fault fault;
  fault.kind = FaultKind::enospc;
  fault.on_write = true;
  EXPECT_THROW(NvmeRig(options(d), FaultySink::wrap, &fault), NvmeError);
  EXPECT_TRUE(d.empty());
}

}  // namespace
}  // namespace strata
