#include "offload/policy/resident.hpp"

namespace strata {

std::vector<ChunkPlacement> ResidentPolicy::place(const PlacementInput& in) const {
  return std::vector<ChunkPlacement>(in.layout.chunks(), ChunkPlacement::all(Place::device));
}

}  // namespace strata
