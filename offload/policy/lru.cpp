#include "offload/policy/lru.hpp"

namespace strata {

size_t LruPolicy::choose_victim(std::span<const Victim> victims) const {
  size_t best = 0;
  for (size_t i = 1; i < victims.size(); ++i) {
    if (victims[i].last_use < victims[best].last_use) best = i;
  }
  return best;
}

}  // namespace strata
