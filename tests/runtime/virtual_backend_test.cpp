#include "runtime/virtual/virtual_backend.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

VirtualRates rates() {
  VirtualRates r;
  r.flops_per_second = 8;
  r.memory_bytes_per_second = r.update_bytes_per_second = 4;
  r.h2d_bytes_per_second = 2;
  r.d2h_bytes_per_second = 1;
  r.latency_seconds = 0.5;
  return r;
}

void must_not_run(void*, const void*) { FAIL() << "a kernel ran in virtual time"; }

/// When all of the stream's work so far ends.
double end_of(VirtualBackend& b, Resource r) { return b.time_of(b.stream(r).record()); }

TEST(VirtualBackend, CostsBecomeTime) {
  VirtualBackend b(rates());
  EXPECT_FALSE(b.executes());
  b.stream(Resource::compute).launch(&must_not_run, nullptr, 0, {16, 8});
  b.stream(Resource::update).launch(&must_not_run, nullptr, 0, {0, 8});
  char byte = 1;
  b.stream(Resource::h2d).copy(&byte + 1, &byte, 8);  // never looked at
  b.stream(Resource::d2h).copy(&byte + 1, &byte, 8);
  b.stream(Resource::d2h).copy(&byte + 1, &byte, 0);
  b.drain();
  EXPECT_EQ(b.busy(Resource::compute), 0.5 + 8.0 / 4 + 16.0 / 8);
  EXPECT_EQ(b.busy(Resource::update), 0.5 + 8.0 / 4);
  EXPECT_EQ(b.busy(Resource::h2d), 0.5 + 8.0 / 2);
  EXPECT_EQ(b.busy(Resource::d2h), 0.5 + 8.0) << "a copy of nothing is no record";
  EXPECT_EQ(b.now(), 8.5);
  EXPECT_EQ(byte, 1);
}

TEST(VirtualBackend, StreamsThatAreNeverIdleKeepTheirOrder) {
  VirtualBackend b(rates());
  Stream& copies = b.stream(Resource::h2d);
  Stream& compute = b.stream(Resource::compute);
  std::vector<Fence> ends;
  // Each launch of a second waits for a copy of two; there are always some of both to do.
  for (size_t i = 0; i < 3000; ++i) {
    copies.copy(nullptr, nullptr, 3);
    compute.wait(copies.record());
    compute.launch(&must_not_run, nullptr, 0, {0, 2});
    ends.push_back(compute.record());
    if (i < 10) continue;
    ASSERT_EQ(b.time_of(ends[i - 10]), 2.0 * static_cast<double>(i - 9) + 1);
  }
  b.drain();
  EXPECT_EQ(b.busy(Resource::compute), 3000);
  EXPECT_EQ(b.now(), 6001);
}

TEST(VirtualBackend, AStreamIsFifoAndStreamsOverlap) {
  VirtualBackend b(rates());
  std::vector<Fence> ends;
  for (int i = 0; i < 3; ++i) {
    b.stream(Resource::h2d).copy(nullptr, nullptr, 1);
    ends.push_back(b.stream(Resource::h2d).record());
  }
  b.stream(Resource::d2h).copy(nullptr, nullptr, 1);
  const Fence other = b.stream(Resource::d2h).record();
  EXPECT_EQ(b.now(), 0) << "issuing takes no time";
  EXPECT_FALSE(ends[0].done());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(b.time_of(ends[static_cast<size_t>(i)]), i + 1.0);
  EXPECT_EQ(b.time_of(other), 1.5);
  EXPECT_EQ(b.busy(Resource::h2d), 3);
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
  const Fence first = compute.record();
  compute.launch(nullptr, nullptr, 0, {4, 0});
  const Fence second = compute.record();
  compute.wait(late);
  compute.wait(early);
  compute.wait(Fence());
  compute.wait(second);
  const Fence third = compute.record();
  EXPECT_EQ(b.time_of(first), 1);
  EXPECT_EQ(b.time_of(second), 2);
  EXPECT_EQ(b.time_of(third), 3);
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
  EXPECT_EQ(end_of(b, Resource::d2h), 3 + 1.5);
  b.drain();
  EXPECT_EQ(b.now(), 6);
}

TEST(VirtualBackend, CountsTheTimeStreamsWereHeldUpAndByWhom) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  h2d.copy(nullptr, nullptr, 3);
  const Fence early = h2d.record();
  h2d.copy(nullptr, nullptr, 3);
  const Fence late = h2d.record();
  Stream& compute = b.stream(Resource::compute);
  compute.launch(nullptr, nullptr, 0, {4, 0});
  compute.wait(early);
  compute.wait(early);
  b.stream(Resource::d2h).copy(nullptr, nullptr, 3);
  compute.wait(b.stream(Resource::d2h).record());
  b.wait(late);
  b.stream(Resource::d2h).wait(late);
  b.drain();
  EXPECT_EQ(b.waited(Resource::compute, Resource::h2d), 1) << "from 1 to 2";
  EXPECT_EQ(b.waited(Resource::compute, Resource::d2h), 1.5) << "from 2 to 3.5";
  EXPECT_EQ(b.waited(Resource::compute), 2.5);
  EXPECT_EQ(b.waited(Resource::d2h), 0) << "it was done when the wait was issued";
  EXPECT_EQ(b.waited(Resource::h2d), 0);
}

/// Notes what it hears.
struct Heard final : StreamObserver {
  struct Event {
    Resource stream;
    WorkLabel label;
    Resource on;
    WorkLabel on_label;
    double begin, end;
    bool wait;
    bool operator==(const Event&) const = default;
  };
  std::vector<Event> events;
  void worked(Resource r, WorkLabel label, double begin, double end) noexcept override {
    events.push_back({r, label, r, 0, begin, end, false});
  }
  void waited(Resource r, WorkLabel label, Resource on, WorkLabel on_label, double begin,
              double end) noexcept override {
    events.push_back({r, label, on, on_label, begin, end, true});
  }
};

TEST(VirtualBackend, TellsItsObserverWhenWorkAndWaitsBeganAndEnded) {
  Heard heard;
  VirtualBackend b(rates());
  b.observe(&heard);
  Stream &h2d = b.stream(Resource::h2d), &compute = b.stream(Resource::compute);
  compute.set_label(1);  // not timed
  compute.launch(nullptr, nullptr, 0, {4, 0});
  h2d.set_label(kTimed | 7);
  h2d.copy(nullptr, nullptr, 3);
  compute.set_label(kTimed | 9);
  compute.wait(h2d.record());
  h2d.set_label(8);
  compute.launch(nullptr, nullptr, 0, {12, 0});
  b.drain();
  const std::vector<Heard::Event> expected = {
      {Resource::h2d, kTimed | 7, Resource::h2d, 0, 0, 2, false},
      {Resource::compute, kTimed | 9, Resource::h2d, kTimed | 7, 1, 2, true},
      {Resource::compute, kTimed | 9, Resource::compute, 0, 2, 4, false}};
  EXPECT_TRUE(std::is_permutation(heard.events.begin(), heard.events.end(), expected.begin(),
                                  expected.end()));
}

TEST(VirtualBackend, OneProcessorIsSharedByWhoIsBusy) {
  VirtualRates r = rates();
  r.latency_seconds = 0;
  r.one_processor = true;
  VirtualBackend b(r);
  b.stream(Resource::compute).launch(nullptr, nullptr, 0, {0, 16});  // 4 s alone
  const Fence compute = b.stream(Resource::compute).record();
  b.stream(Resource::update).launch(nullptr, nullptr, 0, {0, 4});  // 1 s
  const Fence update = b.stream(Resource::update).record();
  b.stream(Resource::h2d).copy(nullptr, nullptr, 4);  // 2 s
  const Fence copy = b.stream(Resource::h2d).record();
  b.stream(Resource::nvme_read).copy(nullptr, nullptr, size_t{2'000'000'000});  // 1 s, elsewhere
  const Fence read = b.stream(Resource::nvme_read).record();
  EXPECT_DOUBLE_EQ(b.time_of(read), 1);
  EXPECT_DOUBLE_EQ(b.time_of(update), 3);   // a third each
  EXPECT_DOUBLE_EQ(b.time_of(copy), 5);     // then a half each
  EXPECT_DOUBLE_EQ(b.time_of(compute), 7);  // then alone: 7 s of work in 7 s
}

TEST(VirtualBackend, OneDriveReadsAndWritesAtItsMixedRate) {
  VirtualRates r = rates();
  r.latency_seconds = 0;
  r.nvme_read_bytes_per_second = 4;
  r.nvme_write_bytes_per_second = 8;
  r.nvme_mixed_bytes_per_second = 4;
  VirtualBackend b(r);
  b.stream(Resource::nvme_read).copy(nullptr, nullptr, 8);
  const Fence read = b.stream(Resource::nvme_read).record();
  b.stream(Resource::nvme_write).copy(nullptr, nullptr, 4);
  const Fence write = b.stream(Resource::nvme_write).record();
  EXPECT_DOUBLE_EQ(b.time_of(write), 2) << "at 2 a second";
  EXPECT_DOUBLE_EQ(b.time_of(read), 2 + 4.0 / 4) << "4 bytes at 2 a second, 4 alone";
}

TEST(VirtualBackend, KnownSecondsReplaceCosts) {
  VirtualBackend b(rates());
  b.stream(Resource::compute).launch(nullptr, nullptr, 0, {16, 8, 0.125});
  EXPECT_EQ(end_of(b, Resource::compute), 0.125) << "latency too is part of what was measured";
}

TEST(VirtualBackend, EveryMomentOfAStreamIsAccountedFor) {
  VirtualRates r = rates();
  r.one_processor = true;
  r.latency_seconds = 0;
  VirtualBackend b(r);
  b.stream(Resource::h2d).copy(nullptr, nullptr, 4);  // 2 s
  const Fence copied = b.stream(Resource::h2d).record();
  b.stream(Resource::compute).launch(nullptr, nullptr, 0, {0, 4});  // 1 s
  b.stream(Resource::compute).wait(copied);
  b.stream(Resource::compute).launch(nullptr, nullptr, 0, {0, 4});
  VirtualTimes at_end;
  b.take_times(b.stream(Resource::compute).record(), &at_end);
  b.stream(Resource::d2h).copy(nullptr, nullptr, 9);
  b.drain();
  // Three share until 3 s, two until 5 s, when the copy is done; then compute and d2h.
  const auto& compute = at_end.of(Resource::compute);
  EXPECT_DOUBLE_EQ(at_end.now, 7);
  EXPECT_DOUBLE_EQ(compute.busy, 3 + 2);
  EXPECT_DOUBLE_EQ(compute.work, 2);
  EXPECT_DOUBLE_EQ(compute.waited[static_cast<size_t>(Resource::h2d)], 2);
  EXPECT_DOUBLE_EQ(compute.idle, 0);
  EXPECT_DOUBLE_EQ(at_end.of(Resource::h2d).work, 2);
  EXPECT_DOUBLE_EQ(at_end.of(Resource::h2d).idle, 2);
  EXPECT_DOUBLE_EQ(at_end.of(Resource::d2h).work, 1 + 1 + 1);
  EXPECT_DOUBLE_EQ(b.times().of(Resource::compute).idle, b.now() - 7);
  EXPECT_DOUBLE_EQ(b.now(), 2 + 2 + 9) << "one processor does all the work";
  VirtualTimes afterwards;
  b.take_times(copied, &afterwards);
  EXPECT_EQ(afterwards.now, b.now()) << "of what is done already, now";
}

TEST(VirtualBackend, WaitsAreTracedToWhoIsAtWork) {
  VirtualRates r = rates();
  r.latency_seconds = 0;
  VirtualBackend b(r);
  Stream &update = b.stream(Resource::update), &h2d = b.stream(Resource::h2d);
  update.launch(nullptr, nullptr, 0, {0, 12});  // 3 s
  h2d.wait(update.record());
  h2d.copy(nullptr, nullptr, 4);  // 2 s
  b.stream(Resource::compute).wait(h2d.record());
  b.stream(Resource::compute).launch(nullptr, nullptr, 0, {0, 4});
  b.drain();
  const VirtualTimes::Stream compute = b.times().of(Resource::compute);
  EXPECT_DOUBLE_EQ(compute.waited[static_cast<size_t>(Resource::h2d)], 5);
  EXPECT_DOUBLE_EQ(compute.held_up_by[static_cast<size_t>(Resource::h2d)], 2);
  EXPECT_DOUBLE_EQ(compute.held_up_by[static_cast<size_t>(Resource::update)], 3);
  EXPECT_DOUBLE_EQ(b.times().of(Resource::h2d).held_up_by[static_cast<size_t>(Resource::update)],
                   3);
}

TEST(VirtualBackend, MarkedWaitsCountWhereTheyTakeTime) {
  VirtualBackend b(rates());
  Stream &h2d = b.stream(Resource::h2d), &compute = b.stream(Resource::compute);
  const auto waits = [&] { return b.times().of(Resource::compute).marked_waits; };
  h2d.copy(nullptr, nullptr, 1);
  const Fence first = h2d.record();
  h2d.copy(nullptr, nullptr, 1);
  const Fence second = h2d.record();
  b.stream(Resource::d2h).copy(nullptr, nullptr, 1);  // ends in the middle of the wait for second
  compute.wait(first);                                // not marked
  b.mark_waits(true);
  compute.wait(first);  // done by then
  compute.wait(second);
  compute.wait(second);
  b.mark_waits(false);
  h2d.copy(nullptr, nullptr, 1);
  compute.wait(h2d.record());
  b.drain();
  EXPECT_EQ(waits(), 1u);
}

TEST(VirtualBackend, WaitingForWhatNeverComesIsAnError) {
  VirtualBackend b(rates());
  VirtualBackend other(rates());
  other.stream(Resource::h2d).copy(nullptr, nullptr, 1);
  const Fence f = other.stream(Resource::h2d).record();
  EXPECT_THROW(b.wait(f), StateError);
  b.stream(Resource::compute).wait(f);
  EXPECT_THROW(b.drain(), StateError);
}

TEST(VirtualBackend, FencesOutliveTheirRing) {
  VirtualBackend b(rates());
  Stream& h2d = b.stream(Resource::h2d);
  const Fence first = h2d.record();
  for (uint32_t i = 0; i < 2 * FenceRing::kSlots; ++i) {
    h2d.copy(nullptr, nullptr, 1);
    h2d.record();
  }
  // The ring came round twice, for which the earliest had to be done; the rest is still to come.
  const double then = b.now();
  EXPECT_GE(then, FenceRing::kSlots);
  EXPECT_LT(then, FenceRing::kSlots + 2);
  b.stream(Resource::compute).wait(first);
  b.wait(first);
  EXPECT_EQ(b.now(), then);
  b.drain();
  EXPECT_EQ(b.now(), 2 * FenceRing::kSlots);
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
    ends.push_back(end_of(b, Resource::d2h));
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
