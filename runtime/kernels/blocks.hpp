// Cuts an element range into the fixed blocks that pool threads take.
#pragma once
#include <algorithm>
#include <cstdint>

#include "runtime/kernels/ieee_scope.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::kernels {

/// Elements a pool thread takes at a time: large against the cost of taking one (microseconds),
/// small against a chunk so that threads finish together.
constexpr uint64_t kBlock = 32768;

/// Which of `count` blocks is taken as the i-th, a permutation: threads that take turns each get
/// blocks one after another, so that what they prefetched past the end of one is of use.
constexpr uint32_t block_of_turn(uint32_t i, uint32_t count, uint32_t threads) noexcept {
  const uint32_t each = count / threads, rest = count % threads, share = i % threads;
  return share * each + std::min(share, rest) + i / threads;
}

/// Calls f(begin, end) for every block of [0, n), with IEEE denormals.
template <class F>
void for_blocks(ThreadPool& pool, uint64_t n, F&& f) {
  const IeeeScope ieee;
  const auto count = static_cast<uint32_t>((n + kBlock - 1) / kBlock);
  pool.parallel_for(count, [&f, n, count, threads = pool.threads()](uint32_t i) {
    const uint64_t begin = block_of_turn(i, count, threads) * kBlock;
    f(begin, std::min(begin + kBlock, n));
  });
}

}  // namespace strata::kernels
