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

/// Calls f(begin, end) for every block of [0, n), with IEEE denormals.
template <class F>
void for_blocks(ThreadPool& pool, uint64_t n, F&& f) {
  const IeeeScope ieee;
  pool.parallel_for(static_cast<uint32_t>((n + kBlock - 1) / kBlock), [&f, n](uint32_t i) {
    const uint64_t begin = i * kBlock;
    f(begin, std::min(begin + kBlock, n));
  });
}

}  // namespace strata::kernels
