#include "offload/program.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "offload/value_packing.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr uint64_t kNone = UINT64_MAX;

uint64_t align64(uint64_t n) { return (n + 63) / 64 * 64; }

/// The ops of each block call, as `Trace::find` has them.
class Segments {
 public:
  explicit Segments(const Trace& trace) {
    for (auto& blocks : by_block_) blocks.resize(trace.blocks, nullptr);
    for (const TraceSegment& s : trace.segments) {
      if (s.block >= trace.blocks) continue;
      const TraceSegment*& found = by_block_[static_cast<size_t>(s.kind)][s.block];
      if (found == nullptr) found = &s;
    }
  }
  const TraceSegment* find(CallKind kind, uint32_t block) const {
    const CallKind traced = kind == CallKind::reforward ? CallKind::forward : kind;
    return by_block_[static_cast<size_t>(traced)][block];
  }

 private:
  std::array<std::vector<const TraceSegment*>, 4> by_block_;  // by kind
};

std::vector<BlockCall> list_calls(const Trace& trace, const Segments& segments, const Schedule& s) {
  std::vector<BlockCall> calls;
  const auto add = [&](CallKind kind, uint32_t block, uint32_t micro) {
    if (segments.find(kind, block) != nullptr) calls.push_back({kind, block, micro, 0, 0});
  };
  const auto backward = [&](uint32_t block, uint32_t micro) {
    if (segments.find(CallKind::backward, block) == nullptr) return;
    if (block < s.recompute.size() && s.recompute[block]) add(CallKind::reforward, block, micro);
    add(CallKind::backward, block, micro);
  };
  const bool vertical = s.order == MicroBatchOrder::vertical;
  const uint32_t passes = vertical ? 1 : s.micro_batches;
  const uint32_t together = vertical ? s.micro_batches : 1;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    for (uint32_t b = 0; b < trace.blocks; ++b) {
      for (uint32_t m = pass; m < pass + together; ++m) add(CallKind::forward, b, m);
    }
    for (uint32_t b = trace.blocks; b-- > 0;) {
      for (uint32_t m = pass; m < pass + together; ++m) backward(b, m);
    }
  }
  for (uint32_t m = 0; m < s.micro_batches; ++m) {
    for (uint32_t b = 0; b < trace.blocks; ++b) add(CallKind::tail, b, m);
  }
  return calls;
}

}  // namespace

Schedule make_schedule(const Trace& trace, uint32_t micro_batches, uint32_t recompute,
                       MicroBatchOrder order) {
  Schedule s{micro_batches, std::vector<bool>(trace.blocks, false), order};
  for (size_t i = 0; i < trace.recomputable.size() && i < recompute; ++i) {
    s.recompute[trace.recomputable[i]] = true;
  }
  return s;
}

/// One op on its way to the program, with its spans still as vectors.
struct Draft {
  const TraceOp* op;
  uint32_t call, micro;
  bool skip = false;
  std::vector<std::pair<ValueId, uint32_t>> values;  // value, item index of its instance
  uint32_t workspace_item = UINT32_MAX, staging_item = UINT32_MAX;
  std::vector<GradTarget> grads;
  uint64_t staging_bytes = 0;
};

struct Program::Lowering {
  const Trace& trace;
  const ChunkLayout& layout;
  const Schedule& schedule;
  Program& out;
  std::vector<Draft> drafts;
  std::vector<PackItem> items;
  // Values that ops name, numbered anew so that a trace may declare any number of others.
  std::vector<uint32_t> number;
  uint32_t named = 0;

  void collect_ops();
  size_t value_index(ValueId v, uint32_t micro) const { return size_t{micro} * named + number[v]; }
  void drop_unread();
  void assign_values();
  void assign_gradients();
  void pack();
  void emit();
};

void Program::Lowering::collect_ops() {
  const Segments segments(trace);
  out.calls_ = list_calls(trace, segments, schedule);
  size_t ops = 0;
  for (const BlockCall& call : out.calls_) ops += segments.find(call.kind, call.block)->ops.size();
  drafts.reserve(ops);
  for (uint32_t c = 0; c < out.calls_.size(); ++c) {
    BlockCall& call = out.calls_[c];
    call.first_op = static_cast<OpIndex>(drafts.size());
    for (const TraceOp& op : segments.find(call.kind, call.block)->ops) {
      Draft d;
      d.op = &op;
      d.call = c;
      d.micro = call.micro_batch;
      drafts.push_back(std::move(d));
    }
    call.end_op = static_cast<OpIndex>(drafts.size());
  }
  number.assign(trace.values.size(), UINT32_MAX);
  for (const Draft& d : drafts) {
    for (const auto* list : {&d.op->in, &d.op->out}) {
      for (const ValueId v : *list) {
        if (number[v] == UINT32_MAX) number[v] = named++;
      }
    }
  }
}

/// Backwards liveness: a re-forward's op is dropped when nothing reads what it makes before it is
/// made again.
void Program::Lowering::drop_unread() {
  std::vector<bool> wanted(size_t{named} * schedule.micro_batches, false);
  for (size_t i = drafts.size(); i-- > 0;) {
    Draft& d = drafts[i];
    bool read = false;
    for (const ValueId v : d.op->out) {
      read |= wanted[value_index(v, d.micro)];
      wanted[value_index(v, d.micro)] = false;
    }
    d.skip = out.calls_[d.call].kind == CallKind::reforward && !read;
    if (d.skip) continue;
    for (const ValueId v : d.op->in) wanted[value_index(v, d.micro)] = true;
  }
}

/// Each write starts a new instance of a value; reads extend the newest one.
void Program::Lowering::assign_values() {
  std::vector<uint32_t> newest(size_t{named} * schedule.micro_batches, UINT32_MAX);
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    Draft& d = drafts[i];
    if (d.skip) continue;
    for (const ValueId v : d.op->in) {
      const uint32_t item = newest[value_index(v, d.micro)];
      if (item == UINT32_MAX) {
        throw StateError("op " + d.op->name + " reads value " + trace.values[v].name +
                         " before any op made it");
      }
      items[item].last = i;
      d.values.emplace_back(v, item);
    }
    for (const ValueId v : d.op->out) {
      newest[value_index(v, d.micro)] = static_cast<uint32_t>(items.size());
      d.values.emplace_back(v, static_cast<uint32_t>(items.size()));
      items.push_back({trace.values[v].bytes, i, i});
    }
  }
}

void Program::Lowering::assign_gradients() {
  std::vector<bool> seen(layout.params().size(), false);
  for (Draft& d : drafts) {
    for (const TensorUse& use : d.op->uses) {
      if (use.plane != Plane::grad) continue;
      const ParamId p = layout.storage_of(use.param);
      if (!layout.params()[p].trainable) {
        throw StateError("op " + d.op->name + " makes a gradient of " + layout.params()[p].name +
                         ", which is frozen; declare none, or make it trainable");
      }
      const DType type = layout.params()[p].dtype;
      GradTarget g{p, !seen[p], false, use.access == Access::accumulate, 0};
      g.direct = !g.sparse && g.first && out.accumulator_type(type) == type;
      if (!g.direct && !g.sparse) {
        g.staging_offset = d.staging_bytes;
        d.staging_bytes += align64(layout.params()[p].elems() * size_of(type));
      }
      seen[p] = true;
      d.grads.push_back(g);
    }
  }
  out.has_gradient_.resize(seen.size());
  for (ParamId p = 0; p < seen.size(); ++p) out.has_gradient_[p] = seen[layout.storage_of(p)];
}

void Program::Lowering::pack() {
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    Draft& d = drafts[i];
    if (d.skip) continue;
    if (d.op->workspace != 0) {
      d.workspace_item = static_cast<uint32_t>(items.size());
      items.push_back({d.op->workspace, i, i});
    }
    if (d.staging_bytes != 0) {
      d.staging_item = static_cast<uint32_t>(items.size());
      items.push_back({d.staging_bytes, i, i});
    }
  }
  out.non_model_bytes_ = pack_values(items);
  // Bytes that begin to live at an op, and that no longer do at the one after their last.
  std::vector<uint64_t> born(drafts.size() + 1, 0), dead(drafts.size() + 1, 0);
  for (const PackItem& item : items) {
    born[item.first] += item.bytes;
    dead[item.last + 1] += item.bytes;
  }
  uint64_t live = 0;
  for (size_t i = 0; i < drafts.size(); ++i) {
    live += born[i];
    live -= dead[i];
    out.value_peak_bytes_ = std::max(out.value_peak_bytes_, live);
  }
}

void Program::Lowering::emit() {
  const size_t objects = layout.chunks() * kPlanes;
  const auto object_index = [](ObjId id) {
    return id.chunk * kPlanes + static_cast<size_t>(id.plane);
  };
  std::vector<OpIndex> newest(objects, UINT32_MAX);  // the newest op that uses it
  std::vector<OpIndex> last_grad(layout.chunks(), UINT32_MAX);
  struct Range {
    size_t uses, grads, values, completes;
  };
  std::vector<Range> ends;
  std::unordered_map<std::string_view, const char*> names;
  for (const Draft& d : drafts) names.emplace(d.op->name, nullptr);
  out.names_.reserve(names.size());
  for (auto& [name, text] : names) text = out.names_.emplace_back(name).c_str();

  ends.reserve(drafts.size());
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    const Draft& d = drafts[i];
    for (const TensorUse& use : d.op->uses) {
      if (d.skip) break;
      for (const Piece& piece : layout.of_param(use.param)) {
        const ObjId id{piece.chunk, use.plane};
        if (std::exchange(newest[object_index(id)], i) == i) continue;
        out.uses_.push_back({id, use.access});
        if (use.plane == Plane::grad) last_grad[piece.chunk] = i;
      }
    }
    for (const GradTarget& g : d.grads) out.grads_.push_back(g);
    for (const auto& [value, item] : d.values) {
      out.values_.push_back({value, items[item].offset});
    }
    ends.push_back({out.uses_.size(), out.grads_.size(), out.values_.size(), 0});
  }
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    for (const ObjUse& u : std::span(out.uses_).subspan(
             i == 0 ? 0 : ends[i - 1].uses, ends[i].uses - (i == 0 ? 0 : ends[i - 1].uses))) {
      if (u.object.plane == Plane::grad && last_grad[u.object.chunk] == i) {
        out.completes_.push_back(u.object.chunk);
      }
    }
    ends[i].completes = out.completes_.size();
  }
  out.trains_ = !out.completes_.empty();

  out.ops_.reserve(drafts.size());
  Range at{0, 0, 0, 0};
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    const Draft& d = drafts[i];
    const Range& end = ends[i];
    ProgramOp op{};
    op.name = names.at(d.op->name);
    op.call = d.call;
    op.micro_batch = d.micro;
    op.skip = d.skip;
    op.flops = d.op->flops;
    op.bytes = d.op->bytes;
    op.seconds = d.op->seconds;
    op.workspace_offset = d.workspace_item == UINT32_MAX ? kNone : items[d.workspace_item].offset;
    op.staging_offset = d.staging_item == UINT32_MAX ? kNone : items[d.staging_item].offset;
    op.uses = std::span(out.uses_).subspan(at.uses, end.uses - at.uses);
    op.grads = std::span(out.grads_).subspan(at.grads, end.grads - at.grads);
    op.values = std::span(out.values_).subspan(at.values, end.values - at.values);
    op.completes = std::span(out.completes_).subspan(at.completes, end.completes - at.completes);
    out.ops_.push_back(op);
    at = end;
  }
  // Uses by object: how many come before it, then each at the next place of its own.
  out.use_begin_.assign(objects + 1, 0);
  for (const ObjUse& u : out.uses_) ++out.use_begin_[object_index(u.object) + 1];
  std::partial_sum(out.use_begin_.begin(), out.use_begin_.end(), out.use_begin_.begin());
  std::vector<uint32_t> next(out.use_begin_.begin(), out.use_begin_.end() - 1);
  out.use_ops_.resize(out.uses_.size());
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    for (const ObjUse& u : out.ops_[i].uses) out.use_ops_[next[object_index(u.object)]++] = i;
  }
}

Program Program::lower(const Trace& trace, const ChunkLayout& layout, const Schedule& schedule) {
  Program program;
  program.micro_batches_ = schedule.micro_batches;
  Lowering l{trace, layout, schedule, program, {}, {}, {}, 0};
  l.collect_ops();
  l.drop_unread();
  l.assign_values();
  l.assign_gradients();
  l.pack();
  l.emit();
  return program;
}

OpIndex Program::next_use(ObjId id, OpIndex from) const noexcept {
  const size_t o = id.chunk * kPlanes + static_cast<size_t>(id.plane);
  const auto begin = use_ops_.begin() + use_begin_[o], end = use_ops_.begin() + use_begin_[o + 1];
  const auto it = std::lower_bound(begin, end, from);
  return it == end ? static_cast<OpIndex>(ops_.size()) : *it;
}

}  // namespace strata
