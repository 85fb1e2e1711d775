#include "offload/trace_file.hpp"

#include <nlohmann/json.hpp>

#include "offload/trace_access.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

Json header_of(const TraceFile& file) {
  size_t ops = 0;
  for (const TraceSegment& s : file.trace.segments) ops += s.ops.size();
  Json j = {{"strata_trace", TraceFile::kVersion},
            {"model", file.model},
            {"tokens", file.tokens},
            {"blocks", file.trace.blocks},
            {"tensors", file.params.size()},
            {"values", file.trace.values.size()},
            {"ops", ops}};
  if (!file.trace.recomputable.empty()) j["recomputable"] = file.trace.recomputable;
  return j;
}

Json tensor_of(size_t id, const ParamSpec& p) {
  Json j = {{"tensor", id}, {"name", p.name}, {"shape", p.shape}, {"dtype", name_of(p.dtype)}};
  if (p.group != 0) j["group"] = p.group;
  if (!p.trainable) j["trainable"] = false;
  if (!p.decay) j["decay"] = false;
  if (p.tied_to) j["tied_to"] = *p.tied_to;
  return j;
}

Json op_of(size_t id, const TraceSegment& s, const TraceOp& op) {
  Json j = {{"op", id}, {"kind", name_of(s.kind)}, {"block", s.block}, {"name", op.name}};
  for (const TensorUse& use : op.uses) j["uses"].push_back({use.param, word_of(use)});
  if (!op.in.empty()) j["in"] = op.in;
  if (!op.out.empty()) j["out"] = op.out;
  if (op.flops != 0) j["flops"] = op.flops;
  if (op.bytes != 0) j["bytes"] = op.bytes;
  if (op.workspace != 0) j["workspace"] = op.workspace;
  if (op.seconds != 0) j["seconds"] = op.seconds;
  return j;
}

}  // namespace

std::string write_trace(const TraceFile& file) {
  std::string out;
  const auto line = [&](const Json& j) {
    try {
      out += j.dump();
    } catch (const Json::exception&) {
      throw ConfigError("the trace of " + file.model + " has a name that is not UTF-8 text");
    }
    out += '\n';
  };
  line(header_of(file));
  for (size_t p = 0; p < file.params.size(); ++p) line(tensor_of(p, file.params[p]));
  for (size_t v = 0; v < file.trace.values.size(); ++v) {
    const ValueSpec& value = file.trace.values[v];
    line({{"value", v}, {"name", value.name}, {"bytes", value.bytes}});
  }
  size_t id = 0;
  for (const TraceSegment& s : file.trace.segments) {
    for (const TraceOp& op : s.ops) line(op_of(id++, s, op));
  }
  read_trace(out, "trace");  // refuses what others would have to refuse
  return out;
}

}  // namespace strata
