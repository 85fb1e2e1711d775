// Offsets for values and workspaces, computed offline from their lifetimes. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "offload/op.hpp"

namespace strata {

/// Bytes that must not overlap, in memory, with any item alive at the same op.
struct PackItem {
  uint64_t bytes;
  OpIndex first, last;  // inclusive
  uint64_t offset = 0;  // result; a multiple of 64
};

/// Greedy by size, largest first, each at the lowest gap that fits. Takes about as long as sorting
/// them; where the memory in use is in hundreds of pieces, narrow gaps are left. Returns the bytes
/// needed. `looked_at`, if not null: how many ranges of memory in use were looked at.
uint64_t pack_values(std::vector<PackItem>& items, uint64_t* looked_at = nullptr);

}  // namespace strata
