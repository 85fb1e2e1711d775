// Fixed blocks over several slices together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/kernels/blocks.hpp"

namespace strata::kernels {

/// Calls f(slice, begin, end) so that every element of every slice is visited once; the slices laid
/// end to end are cut into blocks, so many small tensors cost no more than one large one.
template <class Slice, class F>
void for_slices(ThreadPool& pool, std::span<const Slice> slices, F&& f) {
  uint64_t total = 0;
  for (const Slice& s : slices) total += s.n;
  for_blocks(pool, total, [&](uint64_t begin, uint64_t end) {
    uint64_t at = 0;  // where slice s begins
    for (const Slice& s : slices) {
      if (at >= end) break;
      if (at + s.n > begin) f(s, std::max(begin, at) - at, std::min(end - at, s.n));
      at += s.n;
    }
  });
}

}  // namespace strata::kernels
