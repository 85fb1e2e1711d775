#include "runtime/host/host_stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/futex.hpp"
#include "runtime/sanitizer.hpp"

namespace strata {
namespace {

constexpr int kSpins = 400;
/// Host copies are cut into pieces of this size for the pool.
constexpr size_t kCopyBlock = 256 << 10;

}  // namespace

HostStream::HostStream(ThreadPool& pool, LinkRate rate, uint64_t delay_seed,
                       uint32_t max_delay_microseconds, uint32_t first_record)
    : turns_(pool),
      own_pool_(kThreadSanitizer ? std::make_unique<ThreadPool>(pool.threads()) : nullptr),
      context_{own_pool_ ? *own_pool_ : pool},
      rate_(rate),
      delay_state_(delay_seed),
      max_delay_microseconds_(max_delay_microseconds),
      ring_(new Record[kRecords]),
      first_record_(first_record),
      head_(first_record) {
  // A slot is free for record n when its sequence equals n.
  for (uint32_t i = 0; i < kRecords; ++i) {
    const uint32_t n = first_record + i;
    ring_[n % kRecords].sequence.store(n, std::memory_order_relaxed);
  }
  worker_ = std::thread([this] { work(); });
}

HostStream::~HostStream() { stop(); }

void HostStream::stop() noexcept {
  if (!worker_.joinable()) return;
  Record& r = begin_push();
  r.kind = Kind::stop;
  end_push(r);
  worker_.join();
}

void HostStream::rethrow() {
  if (failed_.load(std::memory_order_acquire)) std::rethrow_exception(error_);
}

HostStream::Record& HostStream::begin_push() {
  Record& r = ring_[head_ % kRecords];
  for (uint32_t seen; (seen = r.sequence.load(std::memory_order_acquire)) != head_;) {
    futex_wait(r.sequence, seen);
  }
  return r;
}

void HostStream::end_push(Record& r) {
  r.sequence.store(++head_, std::memory_order_release);
  published_.fetch_add(1, std::memory_order_release);
  futex_wake_one(published_);
}

void HostStream::do_wait(const Fence& fence) {
  if (fence.slot() == nullptr) return;
  Record& r = begin_push();
  r.kind = Kind::wait;
  r.fence = fence;
  end_push(r);
}

void HostStream::do_copy(void* dst, const void* src, size_t bytes) {
  Record& r = begin_push();
  r.kind = Kind::copy;
  r.copy = {dst, src, bytes};
  end_push(r);
}

void HostStream::do_launch(KernelFn fn, const void* args, size_t arg_bytes, Cost) {
  Record& r = begin_push();
  r.kind = Kind::launch;
  r.launch.fn = fn;
  if (arg_bytes != 0) std::memcpy(r.launch.args, args, arg_bytes);
  end_push(r);
}

Fence HostStream::do_record() {
  rethrow();
  return record_always();
}

Fence HostStream::record_always() {
  const Fence fence = fences_.acquire();
  FenceRing::mark_enqueued(fence);
  Record& r = begin_push();
  r.kind = Kind::record;
  r.fence = fence;
  end_push(r);
  return fence;
}

void HostStream::work() {
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

void HostStream::execute(const Record& r) {
  // After a failure the stream only completes fences, so that nobody waits for ever.
  const bool skip = failed_.load(std::memory_order_relaxed);
  switch (r.kind) {
    case Kind::wait: run_wait(r.fence); return;
    case Kind::record: FenceRing::complete(r.fence); return;
    case Kind::copy:
    case Kind::launch: break;
    case Kind::stop: return;
  }
  if (skip) return;
  maybe_delay();
  try {
    if (r.kind == Kind::copy) {
      run_copy(r.copy);
    } else {
      const ThreadPool::Turn turn(turns_);
      r.launch.fn(&context_, r.launch.args);
    }
  } catch (...) {
    error_ = std::current_exception();
    failed_.store(true, std::memory_order_release);
  }
}

void HostStream::run_wait(const Fence& fence) {
  if (fence.done()) return;
  const auto start = std::chrono::steady_clock::now();
  fence.wait_done();
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
  waited_nanoseconds_.fetch_add(static_cast<uint64_t>(waited.count()), std::memory_order_relaxed);
}

void HostStream::run_copy(const Copy& c) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    const ThreadPool::Turn turn(turns_);
    const auto blocks = static_cast<uint32_t>((c.bytes + kCopyBlock - 1) / kCopyBlock);
    context_.pool.parallel_for(blocks, [&c](uint32_t i) {
      const size_t begin = i * kCopyBlock;
      std::memcpy(static_cast<std::byte*>(c.dst) + begin,
                  static_cast<const std::byte*>(c.src) + begin,
                  std::min(kCopyBlock, c.bytes - begin));
    });
  }
  if (rate_.bytes_per_second > 0 || rate_.latency_seconds > 0) {
    double seconds = rate_.latency_seconds;
    if (rate_.bytes_per_second > 0)
      seconds += static_cast<double>(c.bytes) / rate_.bytes_per_second;
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(seconds)));
  }
}

void HostStream::maybe_delay() {
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
