#include "offload/trace.hpp"

#include <algorithm>

#include "runtime/errors.hpp"

namespace strata {

const char* name_of(CallKind k) noexcept {
  constexpr const char* kNames[] = {"forward", "reforward", "backward", "tail"};
  return kNames[static_cast<size_t>(k)];
}

const TraceSegment* Trace::find(CallKind kind, uint32_t block) const noexcept {
  const CallKind traced = kind == CallKind::reforward ? CallKind::forward : kind;
  for (const TraceSegment& s : segments) {
    if (s.kind == traced && s.block == block) return &s;
  }
  return nullptr;
}

Tracer::Tracer(uint32_t blocks, std::vector<ValueSpec> values) {
  trace_.blocks = blocks;
  trace_.values = std::move(values);
}

void Tracer::begin(CallKind kind, uint32_t block) {
  if (kind == CallKind::reforward || trace_.find(kind, block) != nullptr) {
    throw StateError(std::string("block call ") + name_of(kind) + " " + std::to_string(block) +
                     " was traced twice or is not traced");
  }
  trace_.segments.push_back({kind, block, {}});
}

Trace Tracer::take() {
  std::erase_if(trace_.segments, [](const TraceSegment& s) { return s.ops.empty(); });
  return std::move(trace_);
}

OpScope* Tracer::enter(const OpInfo& info, std::initializer_list<TensorUse> uses,
                       std::initializer_list<ValueId> in, std::initializer_list<ValueId> out) {
  const std::string where = std::string("op ") + info.name;
  if (trace_.segments.empty()) throw StateError(where + " comes before any block call was begun");
  for (const auto& list : {in, out}) {
    for (const ValueId v : list) {
      if (v < trace_.values.size()) continue;
      throw StateError(where + " names value " + std::to_string(v) + ", but there are only " +
                       std::to_string(trace_.values.size()));
    }
  }
  for (const ValueId v : out) {
    if (std::find(in.begin(), in.end(), v) != in.end()) {
      throw StateError(where + " has " + trace_.values[v].name +
                       " as input and output; outputs never alias inputs");
    }
  }
  trace_.segments.back().ops.push_back(
      {info.name, info.flops, info.bytes, info.workspace, uses, in, out});
  return nullptr;
}

}  // namespace strata
