#include "runtime/host/worker_stream.hpp"

#include <chrono>
#include <cstring>

#include "runtime/futex.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {
namespace {

constexpr int kSpins = 400;

}  // namespace

WorkerStream::WorkerStream(uint64_t delay_seed, uint32_t max_delay_microseconds,
                           uint32_t first_record)
    : delay_state_(delay_seed),
      max_delay_microseconds_(max_delay_microseconds),
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
  Record& r = begin_push();
  r.kind = Kind::stop;
  end_push(r);
  worker_.join();
}

void WorkerStream::rethrow() {
  if (failed()) std::rethrow_exception(error_);
}

WorkerStream::Record& WorkerStream::begin_push() {
  Record& r = ring_[head_ % kRecords];
  for (uint32_t seen; (seen = r.sequence.load(std::memory_order_acquire)) != head_;) {
    futex_wait(r.sequence, seen);
  }
  return r;
}

void WorkerStream::end_push(Record& r) {
  r.sequence.store(++head_, std::memory_order_release);
  published_.fetch_add(1, std::memory_order_release);
  futex_wake_one(published_);
}

void WorkerStream::do_wait(const Fence& fence) {
  if (fence.slot() == nullptr) return;
  Record& r = begin_push();
  r.kind = Kind::wait;
  r.fence = fence;
  end_push(r);
}

void WorkerStream::do_copy(void* dst, const void* src, size_t bytes) {
  Record& r = begin_push();
  r.kind = Kind::copy;
  r.copy = {dst, src, bytes};
  end_push(r);
}

void WorkerStream::do_launch(KernelFn fn, const void* args, size_t arg_bytes, Cost) {
  Record& r = begin_push();
  r.kind = Kind::launch;
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
  Record& r = begin_push();
  r.kind = Kind::record;
  r.fence = fence;
  end_push(r);
  return fence;
}

void WorkerStream::work() {
  use_ieee_denormals();
  for (uint32_t tail = first_record_;; ++tail) {
    Record& r = ring_[tail % kRecords];
    for (int spin = 0;; ++spin) {
      const uint32_t published = published_.load(std::memory_order_acquire);
      if (r.sequence.load(std::memory_order_acquire) == tail + 1) break;
      if (spin < kSpins) {
        cpu_relax();
      } else {
        futex_wait(published_, published);
      }
    }
    if (r.kind == Kind::stop) return;
    execute(r);
    r.sequence.store(tail + kRecords, std::memory_order_release);
    futex_wake_one(r.sequence);
  }
}

void WorkerStream::execute(const Record& r) {
  switch (r.kind) {
    case Kind::wait: run_wait(r.fence); return;
    case Kind::record: run_record(r.fence); return;
    case Kind::copy:
    case Kind::launch: break;
    case Kind::stop: return;
  }
  // After a failure the stream only completes fences, so that nobody waits for ever.
  if (failed_.load(std::memory_order_relaxed)) return;
  maybe_delay();
  try {
    if (r.kind == Kind::copy) {
      run_copy(r.copy);
    } else {
      run_launch(r.launch);
    }
  } catch (...) {
    fail(std::current_exception());
  }
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

void WorkerStream::run_wait(const Fence& fence) {
  if (fence.done()) return;
  const auto start = std::chrono::steady_clock::now();
  fence.wait_done();
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
  waited_nanoseconds_.fetch_add(static_cast<uint64_t>(waited.count()), std::memory_order_relaxed);
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
