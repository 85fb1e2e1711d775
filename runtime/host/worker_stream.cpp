#include "runtime/host/worker_stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/clock.hpp"
#include "runtime/futex.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {
namespace {

constexpr int kSpins = 400;

}  // namespace

WorkerStream::WorkerStream(uint64_t delay_seed, uint32_t max_delay_microseconds,
                           uint32_t first_record, bool completes_later)
    : delay_state_(delay_seed),
      max_delay_microseconds_(max_delay_microseconds),
      completes_later_(completes_later),
      ring_(new Record[kRecords]),
      first_record_(first_record),
      head_(first_record) {
  // A slot is free for record n when its sequence equals n.
  for (uint32_t i = 0; i < kRecords; ++i) {
    const uint32_t n = first_record + i;
    ring_[n % kRecords].sequence.store(n, std::memory_order_relaxed);
  }
}

void WorkerStream::start() {
  worker_ = std::thread([this] { work(); });
}

void WorkerStream::stop() noexcept {
  if (!worker_.joinable()) return;
  Record& r = begin_push(Kind::stop);
  end_push(r);
  worker_.join();
}

void WorkerStream::rethrow() {
  if (failed()) std::rethrow_exception(error_);
}

StreamTimes WorkerStream::times() const noexcept {
  StreamTimes t;
  for (size_t r = 0; r < kResources; ++r) t.waited[r] = waited_[r].seconds();
  t.idle = idle_.seconds();
  t.sharing = sharing_.seconds();
  t.busy = busy_.seconds();
  return t;
}

void WorkerStream::note_worked(WorkLabel label, double begin, double end) noexcept {
  busy_.add(end - begin);
  if ((label & kTimed) != 0 && observer() != nullptr) {
    observer()->worked(resource(), label, begin, end);
  }
}

void WorkerStream::note_sharing(double seconds) noexcept {
  if (seconds == 0) return;
  sharing_.add(seconds);
  if (observer() == nullptr) return;
  const double now = seconds_now();
  observer()->waited(resource(), running_, resource(), 0, now - seconds, now);
}

WorkerStream::Record& WorkerStream::begin_push(Kind kind) {
  Record& r = ring_[head_ % kRecords];
  for (uint32_t seen; (seen = r.sequence.load(std::memory_order_acquire)) != head_;) {
    futex_wait(r.sequence, seen);
  }
  r.kind = kind;
  r.label = label();
  return r;
}

void WorkerStream::end_push(Record& r) {
  r.sequence.store(++head_, std::memory_order_release);
  published_.fetch_add(1, std::memory_order_release);
  futex_wake_one(published_);
}

void WorkerStream::do_wait(const Fence& fence) {
  if (fence.slot() == nullptr) return;
  Record& r = begin_push(Kind::wait);
  r.fence = fence;
  r.wait = {fence.slot()->label, static_cast<Resource>(fence.slot()->stream)};
  end_push(r);
}

void WorkerStream::do_copy(void* dst, const void* src, size_t bytes) {
  Record& r = begin_push(Kind::copy);
  r.copy = {dst, src, bytes};
  end_push(r);
}

void WorkerStream::do_launch(KernelFn fn, const void* args, size_t arg_bytes, Cost) {
  Record& r = begin_push(Kind::launch);
  r.launch.fn = fn;
  if (arg_bytes != 0) std::memcpy(r.launch.args, args, arg_bytes);
  end_push(r);
}

Fence WorkerStream::do_record() {
  rethrow();
  return record_always();
}

Fence WorkerStream::record_always() {
  const Fence fence = fences_.acquire();
  FenceRing::mark_enqueued(fence);
  Record& r = begin_push(Kind::record);
  r.fence = fence;
  end_push(r);
  return fence;
}

/// Until the record is there.
void WorkerStream::await(const Record& r, uint32_t sequence) {
  if (r.sequence.load(std::memory_order_acquire) == sequence) return;
  const double start = seconds_now();
  for (int spin = 0;; ++spin) {
    const uint32_t published = published_.load(std::memory_order_acquire);
    if (r.sequence.load(std::memory_order_acquire) == sequence) break;
    if (spin < kSpins) {
      cpu_relax();
    } else {
      futex_wait(published_, published);
    }
  }
  idle_.add(seconds_now() - start);
}

void WorkerStream::work() {
  use_ieee_denormals();
  for (uint32_t tail = first_record_;; ++tail) {
    Record& r = ring_[tail % kRecords];
    await(r, tail + 1);
    if (r.kind == Kind::stop) return;
    execute(r);
    r.sequence.store(tail + kRecords, std::memory_order_release);
    futex_wake_one(r.sequence);
  }
}

/// Kernels of compute are many and short: they are timed only where their label asks for it.
bool WorkerStream::times_itself(const Record& r) const noexcept {
  return !completes_later_ && (resource() != Resource::compute || (r.label & kTimed) != 0);
}

void WorkerStream::execute(const Record& r) {
  switch (r.kind) {
    case Kind::wait: run_wait(r); return;
    case Kind::record: run_record(r.fence, r.label); return;
    case Kind::copy:
    case Kind::launch: break;
    case Kind::stop: return;
  }
  // After a failure the stream only completes fences, so that nobody waits for ever.
  if (failed_.load(std::memory_order_relaxed)) return;
  maybe_delay();
  try {
    run_timed(r);
  } catch (...) {
    fail(std::current_exception());
  }
}

void WorkerStream::run_timed(const Record& r) {
  const bool timed = times_itself(r);
  const double begin = timed ? seconds_now() : 0;
  running_ = r.label;
  if (r.kind == Kind::copy) {
    run_copy(r.copy);
  } else {
    run_launch(r.launch);
  }
  if (timed) note_worked(r.label, begin, seconds_now());
}

void WorkerStream::fail(std::exception_ptr error) noexcept {
  if (failing_.exchange(true, std::memory_order_relaxed)) {
    // Nobody may see this failure's work done before the failure.
    while (!failed()) cpu_relax();
    return;
  }
  error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

void WorkerStream::run_wait(const Record& r) {
  if (r.fence.done()) return;
  const Resource on = r.wait.on;
  const WorkerStream* const other =
      siblings_ != nullptr ? (*siblings_)[static_cast<size_t>(on)] : nullptr;
  const double begin = seconds_now();
  const Waited before = other != nullptr ? other->waited_until(begin) : Waited{};
  waits_on_.store(on, std::memory_order_relaxed);
  waits_since_.store(begin, std::memory_order_relaxed);
  r.fence.wait_done();
  const double end = seconds_now();
  waits_since_.store(0, std::memory_order_relaxed);
  charge(on, end - begin, before, other != nullptr ? other->waited_until(end) : before);
  if (observer() != nullptr) {
    observer()->waited(resource(), r.label, on, r.wait.on_label, begin, end);
  }
}

WorkerStream::Waited WorkerStream::waited_until(double now) const noexcept {
  Waited sums;
  for (size_t r = 0; r < kResources; ++r) sums[r] = waited_[r].seconds();
  const double since = waits_since_.load(std::memory_order_relaxed);
  if (since != 0 && now > since) {
    sums[static_cast<size_t>(waits_on_.load(std::memory_order_relaxed))] += now - since;
  }
  return sums;
}

/// While the other stream waited itself, it was not what held this one up. What is read of it may
/// be a moment old, so no more is charged than there was.
void WorkerStream::charge(Resource on, double seconds, const Waited& before,
                          const Waited& after) noexcept {
  double left = seconds;
  for (size_t r = 0; r < kResources; ++r) {
    const auto of = static_cast<Resource>(r);
    if (of == on || of == resource()) continue;
    const double part = std::clamp(after[r] - before[r], 0.0, left);
    waited_[r].add(part);
    left -= part;
  }
  waited_[static_cast<size_t>(on)].add(left);
}

void WorkerStream::maybe_delay() {
  if (delay_state_ == 0) return;
  // xorshift64: timing only, never numbers.
  delay_state_ ^= delay_state_ << 13;
  delay_state_ ^= delay_state_ >> 7;
  delay_state_ ^= delay_state_ << 17;
  if (delay_state_ % 4 != 0) return;
  std::this_thread::sleep_for(
      std::chrono::microseconds((delay_state_ >> 16) % (max_delay_microseconds_ + 1)));
}

}  // namespace strata
