#include "offload/policy/lru.hpp"

namespace strata {

std::vector<ChunkPlacement> LruPolicy::place(const PlacementInput& in) const {
  std::vector<ChunkPlacement> out(in.layout.chunks(), {Place::host, false});
  uint64_t host = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) host += in.shape.chunk_units(c);
  for (ChunkId c = 0; c < in.layout.chunks() && host > in.host_units; ++c) {
    out[c].home = Place::device;
    host -= in.shape.chunk_units(c);
  }
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
