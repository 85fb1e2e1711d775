#include "offload/residency.hpp"

#include <algorithm>

namespace strata {
namespace {

size_t index_of(ObjId id) noexcept { return id.chunk * kPlanes + static_cast<size_t>(id.plane); }

}  // namespace

Residency::Residency(const Timeline& timeline, const Program& program)
    : ops_in_step_(program.ops().size()), ops_(timeline.window().count * ops_in_step_) {
  size_t objects = 0;
  for (const TimelinePresence& p : timeline.presence()) {
    objects = std::max(objects, index_of({p.object.chunk + 1, Plane::weight}));
  }
  uses_.resize(objects);
  op_uses_.resize(objects);
  open_.assign(objects, -1);
  for (OpIndex i = 0; i < ops_in_step_; ++i) {
    for (const ObjUse& u : program.ops()[i].uses) {
      if (index_of(u.object) < objects) op_uses_[index_of(u.object)].push_back(i);
    }
  }
  read_streams(timeline);
  follow(timeline);
}

void Residency::read_streams(const Timeline& timeline) {
  for (size_t r = 0; r < kResources; ++r) {
    for (const TimelineEvent& e : timeline.work(static_cast<Resource>(r))) {
      end_ = std::max(end_, e.end);
      const WorkItem w = WorkItem::of(e.label);
      const Span span{e.begin, e.end};
      if (w.work == Work::op) {
        Span& op = ops_[w.step * ops_in_step_ + w.index];
        if (!op.known()) op = span;
        op.end = e.end;
      }
      const bool moves = w.work == Work::move;
      for (size_t p = 0; p < kPlanes && (moves || w.work == Work::update); ++p) {
        const ObjId id{w.index, static_cast<Plane>(p)};
        if ((moves && id.plane != w.plane) || index_of(id) >= uses_.size()) continue;
        uses_[index_of(id)].push_back({w.serial, span, moves && w.to == Place::device});
      }
    }
  }
  for (auto& list : uses_) {
    std::sort(list.begin(), list.end(),
              [](const Use& a, const Use& b) { return a.serial < b.serial; });
  }
}

double Residency::step_begin(uint32_t step) const {
  for (OpIndex i = 0; i < ops_in_step_; ++i) {
    if (op(step, i).known()) return op(step, i).begin;
  }
  return end_;
}

std::optional<double> Residency::op_begin(uint32_t step, OpIndex i) const noexcept {
  if (!op(step, i).known()) return std::nullopt;
  return op(step, i).begin;
}

/// When the transfer began that the copy's units were taken for.
std::optional<double> Residency::arrival(const TimelinePresence& p) const {
  for (const Use& u : uses_[index_of(p.object)]) {
    if (u.serial >= p.serial) return u.to_device ? std::optional(u.span.begin) : std::nullopt;
  }
  return std::nullopt;
}

/// When all that used the copy before it was given up was done.
double Residency::last_use(const TimelinePresence& p) const {
  double last = step_begin(p.step);
  const size_t i = index_of(p.object);
  for (const Use& u : uses_[i]) {
    if (u.serial < p.serial) last = std::max(last, u.span.end);
  }
  for (const OpIndex used : op_uses_[i]) {
    if (used < p.op && op(p.step, used).known()) last = std::max(last, op(p.step, used).end);
  }
  return last;
}

void Residency::close(ObjId id, double at) {
  double& open = open_[index_of(id)];
  if (open >= 0 && at > open) stays_.push_back({id, open, at});
  open = -1;
}

void Residency::follow(const Timeline& timeline) {
  uint32_t step = UINT32_MAX;
  std::vector<bool> listed(open_.size());
  const auto close_unlisted = [&](double at) {
    for (size_t i = 0; i < open_.size(); ++i) {
      if (!listed[i]) {
        close({static_cast<ChunkId>(i / kPlanes), static_cast<Plane>(i % kPlanes)}, at);
      }
    }
  };
  const auto all = timeline.presence();
  for (size_t n = 0; n < all.size(); ++n) {
    const TimelinePresence& p = all[n];
    if (p.step != step) {
      step = p.step;
      std::fill(listed.begin(), listed.end(), false);
      for (size_t k = n; k < all.size() && all[k].listed; ++k)
        listed[index_of(all[k].object)] = true;
      close_unlisted(step_begin(step));
    }
    double& open = open_[index_of(p.object)];
    if (!p.there) {
      close(p.object, last_use(p));
    } else if (p.listed) {
      if (open < 0) open = step_begin(step);
    } else {
      const auto made = op_begin(step, std::min<OpIndex>(p.op, ops_in_step_ - 1));
      open = arrival(p).value_or(made.value_or(step_begin(step)));
    }
  }
  listed.assign(open_.size(), false);
  close_unlisted(end_);
  std::stable_sort(stays_.begin(), stays_.end(), [](const Stay& a, const Stay& b) {
    return index_of(a.object) < index_of(b.object);
  });
}

}  // namespace strata
