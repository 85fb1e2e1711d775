#include "offload/program.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "offload/value_packing.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr uint64_t kNone = UINT64_MAX;

uint64_t align64(uint64_t n) { return (n + 63) / 64 * 64; }

std::vector<BlockCall> list_calls(const Trace& trace, const Schedule& s) {
  std::vector<BlockCall> calls;
  const auto add = [&](CallKind kind, uint32_t block, uint32_t micro) {
    if (trace.find(kind, block) != nullptr) calls.push_back({kind, block, micro, 0, 0});
  };
  const auto backward = [&](uint32_t block, uint32_t micro) {
    if (trace.find(CallKind::backward, block) == nullptr) return;
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

  void collect_ops();
  void drop_unread();
  void assign_values();
  void assign_gradients();
  void pack();
  void emit();
};

void Program::Lowering::collect_ops() {
  out.calls_ = list_calls(trace, schedule);
  for (uint32_t c = 0; c < out.calls_.size(); ++c) {
    BlockCall& call = out.calls_[c];
    call.first_op = static_cast<OpIndex>(drafts.size());
    for (const TraceOp& op : trace.find(call.kind, call.block)->ops) {
      Draft d;
      d.op = &op;
      d.call = c;
      d.micro = call.micro_batch;
      drafts.push_back(std::move(d));
    }
    call.end_op = static_cast<OpIndex>(drafts.size());
  }
}

/// Backwards liveness: a re-forward's op is dropped when nothing reads what it makes before it is
/// made again.
void Program::Lowering::drop_unread() {
  std::set<std::pair<ValueId, uint32_t>> wanted;
  for (size_t i = drafts.size(); i-- > 0;) {
    Draft& d = drafts[i];
    bool read = false;
    for (const ValueId v : d.op->out) read |= wanted.erase({v, d.micro}) != 0;
    d.skip = out.calls_[d.call].kind == CallKind::reforward && !read;
    if (d.skip) continue;
    for (const ValueId v : d.op->in) wanted.insert({v, d.micro});
  }
}

/// Each write starts a new instance of a value; reads extend the newest one.
void Program::Lowering::assign_values() {
  std::map<std::pair<ValueId, uint32_t>, uint32_t> newest;
  for (OpIndex i = 0; i < drafts.size(); ++i) {
    Draft& d = drafts[i];
    if (d.skip) continue;
    for (const ValueId v : d.op->in) {
      const auto it = newest.find({v, d.micro});
      if (it == newest.end()) {
        throw StateError("op " + d.op->name + " reads value " + trace.values[v].name +
                         " before any op made it");
      }
      items[it->second].last = i;
      d.values.emplace_back(v, it->second);
    }
    for (const ValueId v : d.op->out) {
      newest[{v, d.micro}] = static_cast<uint32_t>(items.size());
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
  std::vector<std::vector<OpIndex>> used_at(objects);
  std::vector<OpIndex> newest(objects, UINT32_MAX);  // the newest op that uses it
  std::vector<OpIndex> last_grad(layout.chunks(), UINT32_MAX);
  struct Range {
    size_t uses, grads, values, completes;
  };
  std::vector<Range> ends;
  std::map<std::string, const char*> names;
  for (const Draft& d : drafts) names.emplace(d.op->name, nullptr);
  out.names_.reserve(names.size());
  for (auto& [name, text] : names) text = out.names_.emplace_back(name).c_str();

  for (OpIndex i = 0; i < drafts.size(); ++i) {
    const Draft& d = drafts[i];
    for (const TensorUse& use : d.op->uses) {
      if (d.skip) break;
      for (const Piece& piece : layout.of_param(use.param)) {
        const ObjId id{piece.chunk, use.plane};
        if (std::exchange(newest[object_index(id)], i) == i) continue;
        out.uses_.push_back({id, use.access});
        used_at[object_index(id)].push_back(i);
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
  out.use_begin_.assign(objects + 1, 0);
  for (size_t o = 0; o < objects; ++o) {
    out.use_ops_.insert(out.use_ops_.end(), used_at[o].begin(), used_at[o].end());
    out.use_begin_[o + 1] = static_cast<uint32_t>(out.use_ops_.size());
  }
}

Program Program::lower(const Trace& trace, const ChunkLayout& layout, const Schedule& schedule) {
  Program program;
  program.micro_batches_ = schedule.micro_batches;
  Lowering l{trace, layout, schedule, program, {}, {}};
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
