// Random training steps, to see how near plans come to their bounds.
#pragma once
#include <cstdint>

#include "offload/trace_file.hpp"

namespace strata {

/// The weights of a tensor take one chunk of so many bytes, or a few of them.
constexpr uint64_t kRandomChunkBytes = 2048 * 4;

/// A forward and a backward pass over 8 to 59 ops, or 3 to 5 of a small one, each over tensors of
/// its own; some share one with the op before, and the last op may use the first one's.
TraceFile random_trace(uint64_t seed, bool small);

}  // namespace strata
