#include "runtime/host/host_stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/sanitizer.hpp"

namespace strata {
namespace {

/// Host copies are cut into pieces of this size for the pool.
constexpr size_t kCopyBlock = 256 << 10;

}  // namespace

HostStream::HostStream(ThreadPool& pool, LinkRate rate, uint64_t delay_seed,
                       uint32_t max_delay_microseconds, uint32_t first_record)
    : WorkerStream(delay_seed, max_delay_microseconds, first_record),
      turns_(pool),
      own_pool_(kThreadSanitizer ? std::make_unique<ThreadPool>(pool.threads()) : nullptr),
      context_{own_pool_ ? *own_pool_ : pool},
      rate_(rate) {
  start();
}

HostStream::~HostStream() { stop(); }

void HostStream::run_launch(const Launch& l) {
  double waited = 0;
  const ThreadPool::Turn turn(turns_, waited);
  note_sharing(waited);
  l.fn(&context_, l.args);
}

void HostStream::run_copy(const Copy& c) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    double waited = 0;
    const ThreadPool::Turn turn(turns_, waited);
    note_sharing(waited);
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

}  // namespace strata
