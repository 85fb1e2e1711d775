#include "offload/trace_workload.hpp"

#include <fmt/format.h>

#include <cmath>

#include "runtime/errors.hpp"

namespace strata {

TraceWorkload::TraceWorkload(const TraceFile& file, const TraceWorkloadConfig& c)
    : layout_(ChunkLayout::build(file.params,
                                 {ChunkLayout::chunk_elems_of(file.params, c.chunk_bytes), 1})),
      program_(Program::lower(file.trace, layout_,
                              make_schedule(file.trace, c.micro_batches, c.recompute, c.order))),
      shape_(layout_, program_, c.optimizer),
      updater_(make_updater(c.optimizer, layout_.params())) {}

TraceFile with_tokens(TraceFile file, uint64_t tokens) {
  if (tokens == file.tokens) return file;
  const double factor = static_cast<double>(tokens) / static_cast<double>(file.tokens);
  const auto scale = [&](const char* what, uint64_t& n, uint64_t& total, uint64_t most) {
    const double scaled = std::ceil(static_cast<double>(n) * factor);
    if (static_cast<double>(total) + scaled > static_cast<double>(most)) {
      throw ConfigError(fmt::format(
          "with {} tokens for {} there are more than {} {} in a micro-batch; take fewer", tokens,
          file.tokens, most, what));
    }
    n = static_cast<uint64_t>(scaled);
    total += n;
  };
  uint64_t values = 0, flops = 0, bytes = 0;
  for (ValueSpec& v : file.trace.values) {
    scale("bytes of values", v.bytes, values, TraceFile::kMostBytes);
  }
  for (TraceSegment& s : file.trace.segments) {
    for (TraceOp& op : s.ops) {
      uint64_t workspace = 0;
      scale("FLOPs", op.flops, flops, TraceFile::kMostFlops);
      scale("bytes read and written", op.bytes, bytes, TraceFile::kMostBytes);
      scale("bytes of workspace", op.workspace, workspace, TraceFile::kMostBytes);
      op.seconds *= factor;
    }
  }
  file.tokens = tokens;
  return file;
}

}  // namespace strata
