#include "offload/value_packing.hpp"

#include <algorithm>
#include <numeric>

namespace strata {

uint64_t pack_values(std::vector<PackItem>& items) {
  constexpr uint64_t kAlign = 64;
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const PackItem &x = items[a], &y = items[b];
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return x.first != y.first ? x.first < y.first : a < b;
  });
  std::vector<uint32_t> placed;  // ascending offset
  uint64_t peak = 0;
  for (const uint32_t i : order) {
    PackItem& item = items[i];
    if (item.bytes == 0) continue;
    uint64_t at = 0;
    for (const uint32_t j : placed) {
      const PackItem& other = items[j];
      if (other.last < item.first || item.last < other.first) continue;
      if (at + item.bytes <= other.offset) break;
      at = std::max(at, (other.offset + other.bytes + kAlign - 1) / kAlign * kAlign);
    }
    item.offset = at;
    peak = std::max(peak, at + item.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](uint32_t a, uint32_t b) { return items[a].offset < items[b].offset; }),
        i);
  }
  return (peak + kAlign - 1) / kAlign * kAlign;
}

}  // namespace strata
