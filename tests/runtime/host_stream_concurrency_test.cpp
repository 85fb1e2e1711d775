#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"
#include "runtime/host/host_stream.hpp"

namespace strata {
namespace {

constexpr Resource kAll[] = {Resource::compute, Resource::h2d, Resource::d2h, Resource::update};

HostBackendOptions options(uint32_t threads, uint64_t delay_seed = 0) {
  HostBackendOptions o;
  o.threads = threads;
  o.delay_seed = delay_seed;
  o.max_delay_microseconds = 100;
  return o;
}

void append(HostContext&, std::vector<int>* log, int value) { log->push_back(value); }
void add(HostContext&, uint64_t* sum, uint64_t n) { *sum += n; }
void nap(HostContext&, int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(ConcurrencyHostStream, RunsRecordsInOrderBeyondItsRing) {
  HostBackend backend(options(1));
  Stream& s = backend.stream(Resource::compute);
  std::vector<int> log;
  constexpr int kRecords = 7000;
  for (int i = 0; i < kRecords; ++i) launch_native<&append, HostContext>(s, {}, &log, i);
  backend.wait(s.record());
  ASSERT_EQ(log.size(), static_cast<size_t>(kRecords));
  for (int i = 0; i < kRecords; ++i) ASSERT_EQ(log[i], i);
}

TEST(ConcurrencyHostStream, FencesOutnumberTheirRing) {
  HostBackend backend(options(1));
  Stream& a = backend.stream(Resource::compute);
  Stream& b = backend.stream(Resource::update);
  uint64_t sum = 0;
  const Fence first = a.record();
  for (uint64_t i = 0; i < 2 * FenceRing::kSlots + 10; ++i) {
    Stream& s = i % 2 == 0 ? a : b;
    Stream& t = i % 2 == 0 ? b : a;
    launch_native<&add, HostContext>(s, {}, &sum, i);
    t.wait(s.record());
    t.wait(first);
  }
  backend.drain();
  constexpr uint64_t kRounds = 2 * FenceRing::kSlots + 10;
  EXPECT_EQ(sum, kRounds * (kRounds - 1) / 2);
}

TEST(ConcurrencyHostStream, WaitsOrderStreamsUnderDelays) {
  for (const uint64_t seed : {0u, 1u, 2u}) {
    HostBackend backend(options(2, seed));
    std::vector<int> log;
    Fence last;
    std::mt19937_64 draw(seed);
    for (int i = 0; i < 300; ++i) {
      Stream& s = backend.stream(kAll[draw() % std::size(kAll)]);
      s.wait(last);
      launch_native<&append, HostContext>(s, {}, &log, i);
      last = s.record();
    }
    backend.wait(last);
    std::vector<int> expected(300);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(log, expected) << "seed " << seed;
  }
}

TEST(ConcurrencyHostStream, WaitingOnAFenceThatIsNotEnqueuedIsAnError) {
  HostBackend backend(options(1));
  FenceRing ring;
  const Fence pending = ring.acquire();
  EXPECT_THROW(backend.stream(Resource::h2d).wait(pending), StateError);
  FenceRing::mark_enqueued(pending);
  backend.stream(Resource::h2d).wait(pending);
  FenceRing::complete(pending);
  backend.drain();
}

TEST(ConcurrencyHostStream, CopiesAnySizeAtAnyOffset) {
  for (const uint32_t threads : {1u, 3u}) {
    HostBackend backend(options(threads));
    Stream& s = backend.stream(Resource::h2d);
    std::mt19937_64 draw(7);
    std::vector<unsigned char> src(1 << 20), dst(1 << 20, 0), expected(1 << 20, 0);
    for (auto& b : src) b = static_cast<unsigned char>(draw());
    s.copy(nullptr, nullptr, 0);
    for (int i = 0; i < 60; ++i) {
      const size_t bytes = draw() % (i < 40 ? 5000 : 700000);
      const size_t from = draw() % (src.size() - bytes), to = draw() % (dst.size() - bytes);
      s.copy(dst.data() + to, src.data() + from, bytes);
      std::copy_n(src.begin() + static_cast<ptrdiff_t>(from), bytes,
                  expected.begin() + static_cast<ptrdiff_t>(to));
    }
    backend.wait(s.record());
    EXPECT_EQ(dst, expected);
  }
}

struct Block {
  std::array<std::byte, Stream::kMaxArgs> bytes;
};

TEST(ConcurrencyHostStream, ArgumentsAreCopiedUpToTheLimit) {
  HostBackend backend(options(1));
  Stream& s = backend.stream(Resource::compute);
  static Block seen;
  seen = {};
  const KernelFn keep = [](void*, const void* args) { seen = *static_cast<const Block*>(args); };
  Block block;
  block.bytes.fill(std::byte{0x5a});
  s.launch(keep, &block, sizeof block, {});
  block.bytes.fill(std::byte{0});
  backend.wait(s.record());
  for (const std::byte b : seen.bytes) ASSERT_EQ(b, std::byte{0x5a});
  EXPECT_THROW(s.launch(keep, &block, Stream::kMaxArgs + 1, {}), StateError);
  s.launch([](void*, const void*) {}, nullptr, 0, {});
  backend.drain();
}

void fail(HostContext&) { throw NonFinite("weight 3 is NaN"); }
void fail_in_loop(HostContext& host) {
  host.pool.parallel_for(8, [](uint32_t i) {
    if (i == 5) throw NonFinite("weight 3 is NaN");
  });
}

template <class F>
void expect_failure(F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const NonFinite& e) {
    EXPECT_STREQ(e.what(), "weight 3 is NaN");
  }
}

TEST(ConcurrencyHostStream, AnExceptionReachesTheIssuerAndNobodyHangs) {
  for (const auto kernel :
       {&launch_native<&fail, HostContext>, &launch_native<&fail_in_loop, HostContext>}) {
    HostBackend backend(options(3));
    Stream& bad = backend.stream(Resource::compute);
    Stream& other = backend.stream(Resource::update);
    uint64_t before = 0, after = 0, beside = 0;
    launch_native<&add, HostContext>(bad, {}, &before, uint64_t{1});
    launch_native<&nap, HostContext>(bad, {}, 3);  // so that the fence exists before the failure
    kernel(bad, {});
    launch_native<&add, HostContext>(bad, {}, &after, uint64_t{1});
    const Fence fence = bad.record();
    other.wait(fence);
    launch_native<&add, HostContext>(other, {}, &beside, uint64_t{1});
    const Fence end = other.record();
    expect_failure([&] { backend.wait(fence); });
    expect_failure([&] { backend.wait(end); });
    EXPECT_TRUE(end.done());
    expect_failure([&] { bad.record(); });
    expect_failure([&] { backend.drain(); });
    EXPECT_EQ(before, 1u);
    EXPECT_EQ(after, 0u) << "work of a failed stream must be skipped";
    EXPECT_EQ(beside, 1u);
  }
}

TEST(ConcurrencyHostStream, DrainOutwaitsEveryStreamAlsoAfterAFailure) {
  HostBackend backend(options(1));
  auto finished = std::make_unique<uint64_t>(0);
  launch_native<&fail, HostContext>(backend.stream(Resource::compute), {});
  Stream& slow = backend.stream(Resource::update);
  for (int i = 0; i < 5; ++i) {
    launch_native<&nap, HostContext>(slow, {}, 4);
    launch_native<&add, HostContext>(slow, {}, finished.get(), uint64_t{1});
  }
  expect_failure([&] { backend.drain(); });
  EXPECT_EQ(*finished, 5u);
  finished.reset();  // as an engine frees its arenas
}

TEST(ConcurrencyHostStream, TheBackendEndsWithWorkQueued) {
  uint64_t sum = 0;
  {
    HostBackend backend(options(1));
    Stream& late = backend.stream(Resource::compute);
    Stream& early = backend.stream(Resource::update);
    launch_native<&nap, HostContext>(late, {}, 10);
    // The later streams are destroyed first; this one still looks at their fences.
    for (int i = 0; i < 10; ++i) late.wait(early.record());
    launch_native<&add, HostContext>(late, {}, &sum, uint64_t{1});
  }
  EXPECT_EQ(sum, 1u);
}

TEST(ConcurrencyHostStream, TheCountOfRecordsWraps) {
  ThreadPool pool(2);
  constexpr uint32_t kLast = std::numeric_limits<uint32_t>::max();
  for (const uint32_t first : {kLast - 3000, kLast, kLast - 1, 12345u}) {
    HostStream s(pool, {}, 0, 0, first);
    uint64_t sum = 0;
    std::vector<Fence> fences;
    for (uint64_t i = 0; i < 6000; ++i) {
      launch_native<&add, HostContext>(s, {}, &sum, i);
      if (i % 1000 == 0) fences.push_back(s.record());
    }
    s.record().wait_done();
    EXPECT_EQ(sum, 6000u * 5999 / 2);
    for (const Fence& f : fences) EXPECT_TRUE(f.done());
  }
}

double seconds_of(HostBackend& backend, Resource r, int copies, size_t bytes) {
  std::vector<char> src(bytes), dst(bytes);
  const double start = backend.now();
  for (int i = 0; i < copies; ++i) backend.stream(r).copy(dst.data(), src.data(), bytes);
  backend.wait(backend.stream(r).record());
  return backend.now() - start;
}

// Lower bounds alone: how late a loaded machine wakes is not ours to say.
TEST(ConcurrencyHostStream, EmulatedLinksTakeTheirTime) {
  HostBackendOptions o = options(1);
  o.h2d = {1e6, 0};
  o.d2h = {0, 2e-3};
  HostBackend backend(o);
  EXPECT_GE(seconds_of(backend, Resource::h2d, 3, 5000), 3 * 5000 / 1e6);
  EXPECT_GE(seconds_of(backend, Resource::d2h, 3, 5000), 3 * 2e-3);
  HostBackendOptions both = options(1);
  both.h2d = {1e6, 3e-3};
  HostBackend second(both);
  EXPECT_GE(seconds_of(second, Resource::h2d, 1, 4000), 3e-3 + 4e-3);
}

TEST(ConcurrencyHostStream, CountsTheTimeItWasHeldUp) {
  HostBackend backend(options(1));
  Stream& slow = backend.stream(Resource::h2d);
  launch_native<&nap, HostContext>(slow, {}, 4);
  const Fence f = slow.record();
  backend.wait(f);
  backend.stream(Resource::d2h).wait(f);
  launch_native<&nap, HostContext>(slow, {}, 20);
  backend.stream(Resource::compute).wait(slow.record());
  backend.drain();
  EXPECT_EQ(backend.waited(Resource::d2h), 0) << "it was done";
  EXPECT_EQ(backend.waited(Resource::h2d), 0);
  EXPECT_GT(backend.waited(Resource::compute), 0);
  const StreamTimes times = backend.stream_times(Resource::compute);
  EXPECT_EQ(times.waited[static_cast<size_t>(Resource::h2d)], backend.waited(Resource::compute));
  EXPECT_GT(backend.stream_times(Resource::h2d).busy, 20e-3) << "it naps so long";
  EXPECT_EQ(times.busy, 0) << "compute's work is not timed";
}

TEST(ConcurrencyHostStream, AWaitIsChargedToTheEndOfItsChain) {
  HostBackend backend(options(1));
  Stream &h2d = backend.stream(Resource::h2d), &d2h = backend.stream(Resource::d2h);
  launch_native<&nap, HostContext>(h2d, {}, 30);
  d2h.wait(h2d.record());
  backend.stream(Resource::compute).wait(d2h.record());
  backend.drain();
  const auto waited = backend.stream_times(Resource::compute).waited;
  EXPECT_GT(waited[static_cast<size_t>(Resource::h2d)], 0) << "d2h did nothing but wait";
}

/// Counts what it hears.
struct Counter final : StreamObserver {
  std::array<std::atomic<int>, kResources> works{}, waits{};
  std::atomic<WorkLabel> label{0}, on_label{0};
  std::atomic<bool> ordered{true};

  void worked(Resource r, WorkLabel, double begin, double end) noexcept override {
    ++works[static_cast<size_t>(r)];
    if (begin > end) ordered = false;
  }
  void waited(Resource r, WorkLabel of, Resource on, WorkLabel on_of, double begin,
              double end) noexcept override {
    ++waits[static_cast<size_t>(r)];
    label = of;
    if (on == r) return;
    on_label = on_of;
    if (begin > end || on != Resource::h2d) ordered = false;
  }
};

TEST(ConcurrencyHostStream, TellsItsObserverOfTimedWorkAndOfWaits) {
  Counter counter;
  HostBackend backend(options(1));
  backend.observe(&counter);
  Stream &h2d = backend.stream(Resource::h2d), &compute = backend.stream(Resource::compute);
  h2d.set_label(5);
  launch_native<&nap, HostContext>(h2d, {}, 20);
  compute.set_label(kTimed | 6);
  compute.wait(h2d.record());
  launch_native<&nap, HostContext>(compute, {}, 1);
  compute.set_label(7);
  launch_native<&nap, HostContext>(compute, {}, 1);
  backend.drain();
  const auto at = [](Resource r) { return static_cast<size_t>(r); };
  EXPECT_EQ(counter.works[at(Resource::h2d)], 0) << "its label is not timed";
  EXPECT_EQ(counter.works[at(Resource::compute)], 1);
  EXPECT_EQ(counter.waits[at(Resource::compute)], 1);
  EXPECT_EQ(counter.label, kTimed | 6);
  EXPECT_EQ(counter.on_label, 5u);
  EXPECT_TRUE(counter.ordered);
}

TEST(ConcurrencyHostStream, WorkersKeepTheirQueuesApart) {
  // A stream that waits does not hold up another.
  HostBackend backend(options(2));
  FenceRing ring;
  const Fence gate = ring.acquire();
  FenceRing::mark_enqueued(gate);
  uint64_t held = 0, free = 0;
  backend.stream(Resource::h2d).wait(gate);
  launch_native<&add, HostContext>(backend.stream(Resource::h2d), {}, &held, uint64_t{1});
  launch_native<&add, HostContext>(backend.stream(Resource::d2h), {}, &free, uint64_t{1});
  backend.wait(backend.stream(Resource::d2h).record());
  EXPECT_EQ(free, 1u);
  EXPECT_FALSE(backend.stream(Resource::h2d).record().done());
  FenceRing::complete(gate);
  backend.drain();
  EXPECT_EQ(held, 1u);
}

}  // namespace
}  // namespace strata
