#include "runtime/virtual/virtual_backend.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

VirtualRates rates() {
  VirtualRates r;
  r.flops_per_second = 8;
  r.memory_bytes_per_second = 4;
  r.h2d_bytes_per_second = 2;
  r.d2h_bytes_per_second = 1;
  r.latency_seconds = 0.5;
  return r;
}

void must_not_run(void*, const void*) { FAIL() << "a kernel ran in virtual time"; }

TEST(VirtualBackend, CostsBecomeTime) {
  VirtualBackend b(rates());
  EXPECT_FALSE(b.executes());
  b.stream(Resource::compute).launch(&must_not_run, nullptr, 0, {16, 8});
  EXPECT_EQ(b.end_of(Resource::compute), 0.5 + 8.0 / 4 + 16.0 / 8);
  b.stream(Resource::update).launch(&must_not_run, nullptr, 0, {0, 8});
  EXPECT_EQ(b.end_of(Resource::update), 0.5 + 8.0 / 4);
  char byte = 1;
  b.stream(Resource::h2d).copy(&byte + 1, &byte, 8);  // never looked at
  EXPECT_EQ(b.end_of(Resource::h2d), 0.5 + 8.0 / 2);
  b.stream(Resource::d2h).copy(&byte + 1, &byte, 8);
  EXPECT_EQ(b.end_of(Resource::d2h), 0.5 + 8.0);
  b.stream(Resource::d2h).copy(&byte + 1, &byte, 0);
  EXPECT_EQ(b.end_of(Resource::d2h), 0.5 + 8.0) << "a copy of nothing is no record";
  EXPECT_EQ(byte, 1);
}

TEST(VirtualBackend, AStreamIsFifoAndStreamsOverlap) {
  VirtualBackend b(rates());
  for (int i = 1; i <= 3; ++i) {
    b.stream(Resource::h2d).copy(nullptr, nullptr, 1);
    EXPECT_EQ(b.end_of(Resource::h2d), i * 1.0);
  }
  EXPECT_EQ(b.end_of(Resource::d2h), 0);
  EXPECT_EQ(b.busy(Resource::h2d), 3);
  EXPECT_EQ(b.now(), 0) << "issuing takes no time";
}

TEST(VirtualBackend, WaitsTakeTheLaterTime) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  Stream& compute = b.stream(Resource::compute);
  h2d.copy(nullptr, nullptr, 1);
  const Fence early = h2d.record();
  h2d.copy(nullptr, nullptr, 3);
  const Fence late = h2d.record();
  EXPECT_TRUE(early.enqueued());
  compute.wait(early);
  EXPECT_EQ(b.end_of(Resource::compute), 1);
  compute.launch(nullptr, nullptr, 0, {4, 0});
  EXPECT_EQ(b.end_of(Resource::compute), 2);
  compute.wait(late);
  EXPECT_EQ(b.end_of(Resource::compute), 3);
  compute.wait(early);
  compute.wait(Fence());
  EXPECT_EQ(b.end_of(Resource::compute), 3);
  EXPECT_EQ(b.busy(Resource::compute), 1) << "waiting is not work";
}

TEST(VirtualBackend, TheIssuerHasAClock) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  h2d.copy(nullptr, nullptr, 5);
  const Fence f = h2d.record();
  h2d.copy(nullptr, nullptr, 5);
  b.wait(f);
  EXPECT_EQ(b.now(), 3);
  b.wait(Fence());
  EXPECT_EQ(b.now(), 3);
  // Nothing starts before it was issued.
  b.stream(Resource::d2h).copy(nullptr, nullptr, 1);
  EXPECT_EQ(b.end_of(Resource::d2h), 3 + 1.5);
  b.drain();
  EXPECT_EQ(b.now(), 6);
}

TEST(VirtualBackend, CountsTheTimeStreamsWereHeldUp) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  h2d.copy(nullptr, nullptr, 3);
  const Fence early = h2d.record();
  h2d.copy(nullptr, nullptr, 3);
  const Fence late = h2d.record();
  Stream& compute = b.stream(Resource::compute);
  compute.launch(nullptr, nullptr, 0, {4, 0});
  compute.wait(early);
  EXPECT_EQ(b.waited(Resource::compute), 1) << "from 1 to 2";
  compute.wait(early);
  EXPECT_EQ(b.waited(Resource::compute), 1);
  b.wait(late);
  b.stream(Resource::d2h).wait(late);
  EXPECT_EQ(b.waited(Resource::d2h), 0) << "it was done when the wait was issued";
  EXPECT_EQ(b.waited(Resource::h2d), 0);
}

TEST(VirtualBackend, FencesOutliveTheirRing) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  const Fence first = h2d.record();
  for (uint32_t i = 0; i < 2 * FenceRing::kSlots; ++i) {
    h2d.copy(nullptr, nullptr, 1);
    h2d.record();
  }
  // Its slot carries a later fence's time now.
  b.stream(Resource::compute).wait(first);
  b.wait(first);
  EXPECT_EQ(b.end_of(Resource::compute), 0);
  EXPECT_EQ(b.now(), 0);
}

TEST(VirtualBackend, WaitingOnAFenceThatIsNotEnqueuedIsAnError) {
  VirtualBackend b(rates());
  FenceRing ring;
  EXPECT_THROW(b.stream(Resource::compute).wait(ring.acquire()), StateError);
}

std::vector<double> delayed_ends(uint64_t seed) {
  VirtualRates r = rates();
  r.latency_seconds = 0;
  r.delay_seed = seed;
  VirtualBackend b(r);
  std::vector<double> ends;
  for (int i = 0; i < 400; ++i) {
    b.stream(Resource::d2h).copy(nullptr, nullptr, 1);
    ends.push_back(b.end_of(Resource::d2h));
  }
  return ends;
}

TEST(VirtualBackend, DelaysRepeatWithTheirSeed) {
  const auto ends = delayed_ends(5);
  EXPECT_EQ(ends, delayed_ends(5));
  EXPECT_NE(ends, delayed_ends(6));
  double before = 0, least = 8, most = 0;
  for (const double e : ends) {
    least = std::min(least, e - before);
    most = std::max(most, e - before);
    before = e;
  }
  EXPECT_GE(least, 0);
  EXPECT_LT(least, 0.5);
  EXPECT_LT(most, 8);
  EXPECT_GT(most, 7.5);
  EXPECT_NEAR(ends.back() / 400, 4, 0.4);
}

TEST(VirtualBackend, MemoryIsARangeOfAnySize) {
  VirtualBackend b(rates());
  const Arena none = b.allocate(Tier::host, 0);
  EXPECT_EQ(none.bytes(), 0u);
  const Arena big = b.allocate(Tier::device, size_t{1} << 36);
  EXPECT_NE(big.base(), nullptr);
  EXPECT_EQ(big.bytes(), size_t{1} << 36);
  EXPECT_THROW(b.allocate(Tier::host, size_t{1} << 62), OutOfMemory);
}

}  // namespace
}  // namespace strata
