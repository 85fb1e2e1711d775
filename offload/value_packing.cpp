#include "offload/value_packing.hpp"

#include <algorithm>
#include <numeric>

namespace strata {
namespace {

/// Finds the placed items that are alive at some op of an interval: a tree over ops, whose nodes
/// hold the items that cover them wholly, and for each op the items that begin there.
class Placed {
 public:
  explicit Placed(OpIndex ops) : begins_(ops) {
    while (leaves_ < ops) leaves_ *= 2;
    covers_.resize(2 * size_t{leaves_});
  }

  void add(uint32_t i, OpIndex first, OpIndex last) {
    begins_[first].push_back(i);
    size_t low = size_t{first} + leaves_, high = size_t{last} + leaves_ + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) covers_[low++].push_back(i);
      if (high % 2 == 1) covers_[--high].push_back(i);
    }
  }

  void find(OpIndex first, OpIndex last, std::vector<uint32_t>& out) const {
    out.clear();
    const auto take = [&](const std::vector<uint32_t>& from) {
      out.insert(out.end(), from.begin(), from.end());
    };
    for (size_t node = size_t{first} + leaves_; node != 0; node /= 2) take(covers_[node]);
    for (OpIndex op = first + 1; op <= last; ++op) take(begins_[op]);
  }

 private:
  uint32_t leaves_ = 1;
  std::vector<std::vector<uint32_t>> covers_, begins_;
};

}  // namespace

uint64_t pack_values(std::vector<PackItem>& items) {
  constexpr uint64_t kAlign = 64;
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const PackItem &x = items[a], &y = items[b];
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return x.first != y.first ? x.first < y.first : a < b;
  });
  OpIndex ops = 1;
  for (const PackItem& item : items) ops = std::max(ops, item.last + 1);
  Placed placed(ops);
  std::vector<uint32_t> alive;
  uint64_t peak = 0;
  for (const uint32_t i : order) {
    PackItem& item = items[i];
    if (item.bytes == 0) continue;
    placed.find(item.first, item.last, alive);
    std::sort(alive.begin(), alive.end(),
              [&](uint32_t x, uint32_t y) { return items[x].offset < items[y].offset; });
    uint64_t at = 0;
    for (const uint32_t j : alive) {
      const PackItem& other = items[j];
      if (at + item.bytes <= other.offset) break;
      at = std::max(at, (other.offset + other.bytes + kAlign - 1) / kAlign * kAlign);
    }
    item.offset = at;
    peak = std::max(peak, at + item.bytes);
    placed.add(i, item.first, item.last);
  }
  return (peak + kAlign - 1) / kAlign * kAlign;
}

}  // namespace strata
