// What memory gives at best: the optimizer's arrays read and written in place, with hardly any
// work.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/kernels/optimizer.hpp"

namespace strata::kernels {

enum class StreamStores : uint8_t {
  temporal,
  non_temporal,  ///< past the caches, where every array of a slice begins at a cache line
  prefetched,    ///< temporal, and loads are asked for ahead as AdamW does
};
constexpr size_t kStreamStores = 3;

/// Reads and writes exactly what `adamw` does, in the same blocks, weights and gradients of `type`,
/// once each, as unsigned integers that wrap around:
///   weight += grad & key;  remainder += key;  m += key;  v += key     (16-bit arrays: its low
///   half)
/// A key of 0 leaves every byte as it is, which the compiler cannot know. The caller holds the
/// pool's turn; slices do not overlap.
void stream_in_place(ThreadPool&, std::span<const AdamWSlice>, DType type, uint32_t key,
                     StreamStores);

}  // namespace strata::kernels
