#include "offload/value_packing.hpp"

#include <algorithm>
#include <numeric>

namespace strata {
namespace {

constexpr uint64_t kAlign = 64;
/// Where memory in use is in more pieces, the narrowest gap counts as in use.
constexpr size_t kMostRanges = 64;

uint64_t align(uint64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

/// Memory in use: ascending ranges with gaps between them.
class Ranges {
 public:
  bool empty() const noexcept { return ranges_.empty(); }

  void add(uint64_t begin, uint64_t end) {
    const auto first = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                        [](const Range& r, uint64_t at) { return r.end < at; });
    auto last = first;
    while (last != ranges_.end() && last->begin <= end) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
      ++last;
    }
    if (first == last) {
      ranges_.insert(first, {begin, end});
      if (ranges_.size() > kMostRanges) close_narrowest();
    } else {
      *first = {begin, end};
      ranges_.erase(first + 1, last);
    }
  }

  /// The lowest place from `at` on for so many bytes.
  uint64_t place(uint64_t at, uint64_t bytes, uint64_t& looked_at) const {
    auto r = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                              [](uint64_t a, const Range& range) { return a < range.end; });
    for (++looked_at; r != ranges_.end() && r->begin < at + bytes; ++r, ++looked_at) at = r->end;
    return at;
  }

 private:
  struct Range {
    uint64_t begin, end;
  };

  void close_narrowest() {
    size_t best = 1;
    const auto gap = [&](size_t i) { return ranges_[i].begin - ranges_[i - 1].end; };
    for (size_t i = 2; i < ranges_.size(); ++i) best = gap(i) < gap(best) ? i : best;
    ranges_[best - 1].end = ranges_[best].end;
    ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(best));
  }

  std::vector<Range> ranges_;
};

/// The memory in use over time: a tree over ops. What is alive throughout a node, but not
/// throughout its parent, is in `whole_`; what is alive at some op of it, and not throughout the
/// parent, in `some_`. Values of layers lie beside each other, so there are few ranges in each,
/// however many are alive.
class Occupied {
 public:
  explicit Occupied(OpIndex ops) {
    while (leaves_ < ops) leaves_ *= 2;
    whole_.resize(2 * leaves_);
    some_.resize(leaves_);  // a leaf is one op: both are the same
  }

  void add(OpIndex first, OpIndex last, uint64_t begin, uint64_t end) {
    visit(
        first, last,
        [&](size_t node) {
          whole_[node].add(begin, end);
          if (node < leaves_) some_[node].add(begin, end);
        },
        [&](size_t node) { some_[node].add(begin, end); });
  }

  /// The lowest place for so many bytes that are free at all ops of an interval.
  uint64_t place(OpIndex first, OpIndex last, uint64_t bytes, uint64_t& looked_at) {
    in_the_way_.clear();
    const auto take = [&](const Ranges& r) {
      if (!r.empty()) in_the_way_.push_back(&r);
    };
    visit(
        first, last, [&](size_t node) { take(node < leaves_ ? some_[node] : whole_[node]); },
        [&](size_t node) { take(whole_[node]); });
    uint64_t at = 0;
    // Until all agree.
    for (size_t agree = 0, i = 0; agree < in_the_way_.size(); i = (i + 1) % in_the_way_.size()) {
      const uint64_t next = in_the_way_[i]->place(at, bytes, looked_at);
      agree = next == at ? agree + 1 : 1;
      at = next;
    }
    return at;
  }

 private:
  /// Calls `inside` for the largest nodes within the interval, and `above` for all nodes above
  /// these.
  template <class Inside, class Above>
  void visit(OpIndex first, OpIndex last, const Inside& inside, const Above& above) const {
    size_t low = first + leaves_, high = last + leaves_ + 1;
    const size_t lowest = low, highest = high - 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) inside(low++);
      if (high % 2 == 1) inside(--high);
    }
    // A node over an end of the interval reaches beyond it, or lies within a node that does not.
    size_t l = lowest / 2, h = highest / 2;
    for (size_t width = 2; l != 0; l /= 2, h /= 2, width *= 2) {
      const auto cut = [&](size_t node) {
        const size_t begin = node * width - leaves_;
        return begin < first || begin + width - 1 > last;
      };
      if (cut(l)) above(l);
      if (h != l && cut(h)) above(h);
    }
  }

  size_t leaves_ = 1;
  std::vector<Ranges> whole_, some_;
  std::vector<const Ranges*> in_the_way_;
};

}  // namespace

uint64_t pack_values(std::vector<PackItem>& items, uint64_t* looked_at) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const PackItem &x = items[a], &y = items[b];
    if (x.bytes != y.bytes) return x.bytes > y.bytes;
    return x.first != y.first ? x.first < y.first : a < b;
  });
  OpIndex ops = 1;
  for (const PackItem& item : items) ops = std::max(ops, item.last + 1);
  Occupied occupied(ops);
  uint64_t peak = 0, looks = 0;
  for (const uint32_t i : order) {
    PackItem& item = items[i];
    if (item.bytes == 0) continue;
    const uint64_t bytes = align(item.bytes);
    item.offset = occupied.place(item.first, item.last, bytes, looks);
    peak = std::max(peak, item.offset + bytes);
    occupied.add(item.first, item.last, item.offset, item.offset + bytes);
  }
  if (looked_at != nullptr) *looked_at = looks;
  return peak;
}

}  // namespace strata
