#include "offload/policy/lru.hpp"

namespace strata {

std::vector<ChunkPlacement> LruPolicy::place(const PlacementInput& in) const {
  std::vector<ChunkPlacement> out(in.layout.chunks(), ChunkPlacement::all(Place::host));
  uint64_t below = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) below += in.shape.chunk_units(c);
  const uint64_t room = uint64_t{in.host_units} + in.nvme_units;
  for (ChunkId c = 0; c < in.layout.chunks() && below > room; ++c) {
    out[c] = ChunkPlacement::all(Place::device);
    below -= in.shape.chunk_units(c);
  }
  settle_below_device(in, out);
  return out;
}

size_t LruPolicy::choose_victim(std::span<const Victim> victims) const {
  size_t best = 0;
  for (size_t i = 1; i < victims.size(); ++i) {
    if (victims[i].last_use < victims[best].last_use) best = i;
  }
  return best;
}

}  // namespace strata
