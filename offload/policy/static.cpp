#include "offload/policy/static.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace strata {

std::string StaticPolicy::name() const {
  char text[64];
  std::snprintf(text, sizeof text, "static:w=%g,o=%g", weights_, optimizer_);
  return text;
}

std::vector<ChunkPlacement> StaticPolicy::place(const PlacementInput& in) const {
  const auto chunks = in.layout.chunks();
  const auto prefix = [&](double fraction) {
    return static_cast<ChunkId>(std::ceil(fraction * chunks - 1e-9));
  };
  std::vector<ChunkPlacement> out(chunks);
  for (ChunkId c = 0; c < chunks; ++c) {
    out[c] = ChunkPlacement::all(c < prefix(optimizer_) ? Place::device : Place::host,
                                 c < prefix(weights_));
  }
  settle_below_device(in, out);
  return out;
}

std::vector<Action> StaticPolicy::actions(const PlacementInput&, const Program& program,
                                          const std::vector<ChunkPlacement>& chunks) const {
  // An interval is a run of uses of one chunk's weights with less than `kJoin` ops between.
  constexpr OpIndex kJoin = 4;
  // Intervals are fetched this many ahead; more would need more units than streaming is given.
  constexpr size_t kAhead = 2;
  struct Interval {
    ChunkId chunk;
    OpIndex first, last;
  };
  std::vector<Interval> intervals;
  std::vector<int64_t> newest(chunks.size(), -1);
  for (OpIndex i = 0; i < program.ops().size(); ++i) {
    for (const ObjUse& u : program.ops()[i].uses) {
      const ChunkId c = u.object.chunk;
      if (u.object.plane != Plane::weight) continue;
      if (chunks[c].on_device() || chunks[c].keep_weight) continue;
      if (newest[c] >= 0 && i - intervals[static_cast<size_t>(newest[c])].last < kJoin) {
        intervals[static_cast<size_t>(newest[c])].last = i;
        continue;
      }
      newest[c] = static_cast<int64_t>(intervals.size());
      intervals.push_back({c, i, i});
    }
  }
  std::vector<Action> actions;
  for (size_t k = 0; k < intervals.size(); ++k) {
    const Interval& it = intervals[k];
    const OpIndex ahead = k < kAhead ? 0 : intervals[k - kAhead].first;
    actions.push_back({Act::fetch, {it.chunk, Plane::weight}, ahead});
    const bool next_is_same = k + 1 < intervals.size() && intervals[k + 1].chunk == it.chunk;
    if (!next_is_same && it.last + 1 < program.ops().size()) {
      actions.push_back({Act::evict, {it.chunk, Plane::weight}, it.last + 1});
    }
  }
  // Evictions first at each op: they free the units the fetches take.
  std::stable_sort(actions.begin(), actions.end(), [](const Action& a, const Action& b) {
    if (a.issue_before != b.issue_before) return a.issue_before < b.issue_before;
    return a.act == Act::evict && b.act != Act::evict;
  });
  return actions;
}

}  // namespace strata
