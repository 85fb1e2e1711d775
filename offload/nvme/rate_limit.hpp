// When transfers may start, so that they are no faster than a rate.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace strata {

/// One server for all who ask. Times are nanoseconds of any clock that only goes forward.
class RateLimit {
 public:
  /// What was not used is kept for so long, since those who sleep wake up late.
  static constexpr int64_t kKept = 2'000'000;

  /// 0: no limit.
  explicit RateLimit(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  bool limits() const noexcept { return bytes_per_second_ > 0; }
  /// When the bytes have gone through, if they came now, after all that came before. Any thread.
  int64_t end_of(uint64_t bytes, int64_t now) noexcept {
    const auto takes = static_cast<int64_t>(static_cast<double>(bytes) / bytes_per_second_ * 1e9);
    int64_t free = free_.load(std::memory_order_relaxed), end;
    do {
      end = std::max(free, now - kKept) + takes;
    } while (!free_.compare_exchange_weak(free, end, std::memory_order_relaxed));
    return end;
  }

 private:
  double bytes_per_second_;
  std::atomic<int64_t> free_{INT64_MIN};
};

}  // namespace strata
