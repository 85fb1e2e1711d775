#include "runtime/virtual/virtual_backend.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "runtime/errors.hpp"

namespace strata {

namespace {

double seconds_at(const Cost& c, double flops_rate, double byte_rate, double latency) noexcept {
  if (c.seconds > 0) return c.seconds;
  const double seconds = latency + static_cast<double>(c.bytes) / byte_rate;
  return flops_rate > 0 ? seconds + static_cast<double>(c.flops) / flops_rate : seconds;
}

}  // namespace

double seconds_of(const Cost& c, const VirtualRates& r) noexcept {
  return seconds_at(c, r.flops_per_second, r.memory_bytes_per_second, r.latency_seconds);
}

class VirtualStream final : public Stream {
 public:
  VirtualStream(VirtualBackend& backend, double flops_rate, double byte_rate, double latency,
                uint64_t seed)
      : backend_(backend),
        flops_rate_(flops_rate),
        byte_rate_(byte_rate),
        latency_(latency),
        random_(seed) {}

  /// What a stream does at a point in time.
  enum class State : uint8_t { idle, works, waits };
  State state() const { return state_; }
  bool owns(const Fence& f) const { return fences_.owns(f.slot()); }
  const Fence& awaited() const { return records_[head_].fence; }

  /// Leaves behind what takes no time at `now`. True: a fence was done.
  bool settle(double now) {
    bool done_any = false;
    for (;; ++head_) {
      // A stream that always has work never comes to the end of its records.
      if (head_ >= kMostLeftBehind && head_ * 2 >= records_.size()) {
        records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
      }
      if (head_ == records_.size()) {
        records_.clear();
        head_ = 0;
        state_ = State::idle;
        return done_any;
      }
      Record& r = records_[head_];
      const bool works = r.kind == Kind::work && r.seconds > 0;
      if (works || (r.kind == Kind::wait && !r.fence.done())) {
        if (r.began < 0) r.began = now;
        state_ = works ? State::works : State::waits;
        return done_any;
      }
      if (r.began >= 0) tell(r, now);
      if (r.kind == Kind::mark) {
        r.fence.slot()->time = now;
        FenceRing::mark_done(r.fence);
        backend_.reached(r.fence);
        done_any = true;
      }
    }
  }
  /// Until the current work ends, when it runs at this share of its speed.
  double seconds_left(double share) const { return records_[head_].seconds / share; }
  void advance(double seconds, double share) {
    double& left = records_[head_].seconds;
    // What ends within rounding ends now.
    double done = seconds * share;
    if (left - done <= 1e-12 * left) done = left;
    left -= done;
    times_.work += done;
    times_.busy += seconds;
  }
  void count_wait(size_t on, size_t holder, double seconds) {
    times_.waited[on] += seconds;
    times_.held_up_by[holder] += seconds;
    times_.marked_waits += std::exchange(records_[head_].marked, false);
  }
  void count_idle(double seconds) { times_.idle += seconds; }

  const VirtualTimes::Stream& times() const { return times_; }

 private:
  static constexpr size_t kMostLeftBehind = 1024;
  enum class Kind : uint8_t { work, wait, mark };
  struct Record {
    Kind kind;
    double seconds;
    Fence fence;
    bool marked = false;
    WorkLabel label = 0;
    double began = -1;  // less than 0: it took no time yet
  };

  /// To the observer, what has come to its end.
  void tell(const Record& r, double now) const {
    if (observer() == nullptr) return;
    if (r.kind == Kind::wait) {
      const FenceSlot& on = *r.fence.slot();
      observer()->waited(resource(), r.label, static_cast<Resource>(on.stream), on.label, r.began,
                         now);
    } else if ((r.label & kTimed) != 0) {
      observer()->worked(resource(), r.label, r.began, now);
    }
  }

  void do_wait(const Fence& f) override {
    // Its own are done before whatever follows.
    if (!f.done() && !owns(f)) {
      records_.push_back({Kind::wait, 0, f, backend_.marks_waits_, label()});
    }
  }
  void do_copy(void*, const void*, size_t bytes) override { push({0, bytes}); }
  void do_launch(KernelFn, const void*, size_t, Cost c) override { push(c); }
  Fence do_record() override {
    if (!fences_.next_is_done()) backend_.run_until([this] { return fences_.next_is_done(); });
    const Fence f = fences_.acquire();
    FenceRing::mark_enqueued(f);
    records_.push_back({Kind::mark, 0, f, false, label()});
    return f;
  }

  void push(Cost c) {
    double seconds = seconds_at(c, flops_rate_, byte_rate_, latency_);
    if (random_ != 0) {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      seconds *= static_cast<double>(random_ >> 40) / (1 << 21);
    }
    records_.push_back({Kind::work, seconds, {}, false, label()});
  }

  VirtualBackend& backend_;
  double flops_rate_, byte_rate_, latency_;
  uint64_t random_;
  std::vector<Record> records_;  // from `head_` on
  size_t head_ = 0;
  State state_ = State::idle;
  VirtualTimes::Stream times_;
  FenceRing fences_;
};

namespace {

constexpr bool on_processor(size_t stream) noexcept {
  const auto r = static_cast<Resource>(stream);
  return r != Resource::nvme_read && r != Resource::nvme_write;
}

}  // namespace

double mixed_share(const VirtualRates& r, Resource stream) noexcept {
  if (r.nvme_mixed_bytes_per_second <= 0) return 1;
  const double alone =
      stream == Resource::nvme_read ? r.nvme_read_bytes_per_second : r.nvme_write_bytes_per_second;
  return std::min(1.0, r.nvme_mixed_bytes_per_second / 2 / alone);
}

VirtualBackend::VirtualBackend(const VirtualRates& r) : rates_(r) {
  const std::array<double, kResources> flops = {r.flops_per_second};
  const std::array<double, kResources> bytes = {
      r.memory_bytes_per_second, r.h2d_bytes_per_second,       r.d2h_bytes_per_second,
      r.update_bytes_per_second, r.nvme_read_bytes_per_second, r.nvme_write_bytes_per_second};
  for (size_t i = 0; i < kResources; ++i) {
    const uint64_t seed = r.delay_seed == 0 ? 0 : (r.delay_seed * 0x9e3779b97f4a7c15u) ^ (i + 1);
    streams_[i] =
        std::make_unique<VirtualStream>(*this, flops[i], bytes[i], r.latency_seconds, seed);
  }
  observe(nullptr);
}

VirtualBackend::~VirtualBackend() = default;

Stream& VirtualBackend::stream(Resource r) { return *streams_[static_cast<size_t>(r)]; }

Arena VirtualBackend::allocate(Tier, size_t bytes) {
  if (bytes == 0) return {};
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("no address range of that size for a virtual arena");
  return {static_cast<std::byte*>(p), bytes, [](std::byte* b, size_t n, void*) { munmap(b, n); }};
}

/// Ends what takes no time on all streams. True: all are idle.
bool VirtualBackend::settle() {
  bool again = true, idle = true;
  while (again) {
    again = false;
    idle = true;
    for (const auto& s : streams_) {
      again |= s->settle(now_);
      idle &= s->state() == VirtualStream::State::idle;
    }
  }
  return idle;
}

/// The share of its own speed that a working stream has now.
double VirtualBackend::share_of(size_t stream) const {
  const auto works = [&](size_t i) { return streams_[i]->state() == VirtualStream::State::works; };
  if (on_processor(stream)) {
    if (!rates_.one_processor) return 1;
    int busy = 0;
    for (size_t i = 0; i < kResources; ++i) busy += on_processor(i) && works(i);
    return 1.0 / busy;
  }
  constexpr auto kRead = static_cast<size_t>(Resource::nvme_read),
                 kWrite = static_cast<size_t>(Resource::nvme_write);
  if (!works(kRead) || !works(kWrite)) return 1;
  return mixed_share(rates_, static_cast<Resource>(stream));
}

/// Called between records: all streams have worked up to `now_`.
void VirtualBackend::reached(const Fence& f) {
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (!(asked_[i].fence == f)) continue;
    *asked_[i].out = times();
    asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

void VirtualBackend::take_times(const Fence& f, VirtualTimes* out) {
  if (f.done()) {
    *out = times();
  } else {
    asked_.push_back({f, out});
  }
}

VirtualTimes VirtualBackend::times() const {
  VirtualTimes t;
  t.now = now_;
  for (size_t i = 0; i < kResources; ++i) t.streams[i] = streams_[i]->times();
  return t;
}

/// Of a fence of this backend.
size_t VirtualBackend::owner_of(const Fence& f) const {
  size_t on = 0;
  while (on + 1 < kResources && !streams_[on]->owns(f)) ++on;
  return on;
}

/// Who holds up a stream that waits: the end of its chain of waits. One that never ends has only
/// so many links.
size_t VirtualBackend::holder_of(size_t stream) const {
  for (size_t links = 0; links < kResources; ++links) {
    if (streams_[stream]->state() != VirtualStream::State::waits) break;
    stream = owner_of(streams_[stream]->awaited());
  }
  return stream;
}

void VirtualBackend::run_until(const std::function<bool()>& done) {
  for (;;) {
    const bool idle = settle();
    if (done()) return;
    std::array<double, kResources> shares{};
    double step = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < kResources; ++i) {
      if (streams_[i]->state() != VirtualStream::State::works) continue;
      shares[i] = share_of(i);
      step = std::min(step, streams_[i]->seconds_left(shares[i]));
    }
    if (step == std::numeric_limits<double>::infinity()) {
      throw StateError(
          std::string("virtual time stands still: ") +
          (idle ? "what is waited for was never issued" : "streams wait for each other"));
    }
    for (size_t i = 0; i < kResources; ++i) {
      VirtualStream& s = *streams_[i];
      if (s.state() == VirtualStream::State::works) {
        s.advance(step, shares[i]);
      } else if (s.state() == VirtualStream::State::idle) {
        s.count_idle(step);
      } else {
        s.count_wait(owner_of(s.awaited()), holder_of(i), step);
      }
    }
    now_ += step;
  }
}

void VirtualBackend::wait(const Fence& f) {
  if (!f.done()) run_until([&] { return f.done(); });
}

void VirtualBackend::drain() {
  run_until([this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& s) { return s->state() == VirtualStream::State::idle; });
  });
}

double VirtualBackend::time_of(const Fence& f) {
  wait(f);
  return f.slot() == nullptr ? 0 : f.slot()->time;
}

double VirtualBackend::waited(Resource waiting, Resource on) const {
  return streams_[static_cast<size_t>(waiting)]->times().waited[static_cast<size_t>(on)];
}
StreamTimes VirtualBackend::stream_times(Resource r) const {
  const VirtualTimes::Stream& t = streams_[static_cast<size_t>(r)]->times();
  return {t.held_up_by, t.idle, std::max(0.0, t.busy - t.work), t.busy};
}
void VirtualBackend::observe(StreamObserver* observer) {
  for (size_t r = 0; r < kResources; ++r) streams_[r]->attach(static_cast<Resource>(r), observer);
}
double VirtualBackend::busy(Resource r) const {
  return streams_[static_cast<size_t>(r)]->times().busy;
}

}  // namespace strata
