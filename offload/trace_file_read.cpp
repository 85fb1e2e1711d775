#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "offload/json_line.hpp"
#include "offload/trace_access.hpp"
#include "offload/trace_file.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr uint64_t kMostBytes = TraceFile::kMostBytes, kMostFlops = TraceFile::kMostFlops;
constexpr uint64_t kMostElems = uint64_t{1} << 48;  // as ChunkLayout has it
constexpr uint64_t kMostLines = uint64_t{1} << 24;  // of one kind
constexpr uint64_t kMostBlocks = uint64_t{1} << 14, kMostGroup = 1023;
constexpr double kMostSeconds = 1e6;
constexpr OpIndex kNever = UINT32_MAX;

class TraceReader {
 public:
  TraceReader(std::string_view text, std::string_view name) : rest_(text), file_(name) {}
  TraceFile read();

 private:
  bool take_line(std::string_view& line);
  void read_header();
  void read_recomputable(const JsonLine&);
  /// Reads the lines of one kind, which are numbered from 0.
  template <class Read>
  void section(const char* kind, uint64_t lines, Read read);
  void read_tensor(const JsonLine&);
  void check_tie(const JsonLine&, const ParamSpec&, uint64_t tied_to) const;
  void read_value(const JsonLine&);
  void read_op(const JsonLine&);
  TraceSegment& segment_of(const JsonLine&);
  void read_uses(const JsonLine&, CallKind, TraceOp&);
  void read_values(const JsonLine&, TraceOp&);
  ValueId value_id(const JsonLine&, uint64_t id) const;
  ParamId storage_of(ParamId p) const { return out_.params[p].tied_to.value_or(p); }
  std::string value_text(ValueId v) const {
    return fmt::format("value {} ({})", v, out_.trace.values[v].name);
  }
  std::string tensor_text(ParamId p) const {
    return fmt::format("tensor {} ({})", p, out_.params[p].name);
  }
  static void add(const JsonLine&, const char* what, uint64_t& total, uint64_t n, uint64_t most);

  std::string_view rest_, file_;
  uint64_t line_ = 0;
  TraceFile out_;
  uint64_t tensors_ = 0, values_ = 0, ops_ = 0;
  uint64_t tensor_bytes_ = 0, value_bytes_ = 0, flops_ = 0, bytes_ = 0;
  uint64_t place_ = 0;  // of the newest op's block call in the order in which calls run
  OpIndex op_ = 0;
  std::vector<bool> made_;                       // by value
  std::vector<OpIndex> read_at_;                 // by value: the newest op that reads it
  std::vector<std::array<OpIndex, 2>> used_at_;  // by storage: weight, gradient
};

bool TraceReader::take_line(std::string_view& line) {
  if (rest_.empty()) return false;
  const size_t end = std::min(rest_.find('\n'), rest_.size());
  line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++line_;
  return true;
}

void TraceReader::add(const JsonLine& line, const char* what, uint64_t& total, uint64_t n,
                      uint64_t most) {
  total += n;
  if (total <= most) return;
  line.refuse(fmt::format("with it there are more than {} {} in all; check the unit", most, what));
}

void TraceReader::read_header() {
  std::string_view text;
  if (!take_line(text)) throw ConfigError(fmt::format("{}:1: the file is empty", file_));
  const JsonLine line(file_, line_, text);
  if (!line.has("strata_trace")) {
    line.refuse("is no trace: its first line has no 'strata_trace'; see docs/trace-format.md");
  }
  const uint64_t version = line.count("strata_trace", UINT64_MAX);
  if (version != TraceFile::kVersion) {
    line.refuse(fmt::format("is a trace of version {}, and this program reads version {}", version,
                            TraceFile::kVersion));
  }
  line.only(
      {"strata_trace", "model", "tokens", "blocks", "tensors", "values", "ops", "recomputable"});
  out_.model = line.text("model");
  out_.tokens = line.count("tokens", kMostBytes);
  out_.trace.blocks = static_cast<uint32_t>(line.count("blocks", kMostBlocks));
  tensors_ = line.count("tensors", kMostLines);
  values_ = line.count("values", kMostLines);
  ops_ = line.count("ops", kMostLines);
  for (const char* key : {"tokens", "blocks", "tensors", "ops"}) {
    if (line.count(key, UINT64_MAX) == 0) {
      line.refuse(fmt::format("'{}' is 0; a trace has at least one", key));
    }
  }
  if (line.has("recomputable")) read_recomputable(line);
}

void TraceReader::read_recomputable(const JsonLine& line) {
  std::vector<uint32_t>& blocks = out_.trace.recomputable;
  for (const uint64_t b : line.counts("recomputable")) {
    if (b >= out_.trace.blocks) {
      line.refuse(fmt::format("'recomputable' has block {}, but blocks are 0 to {}", b,
                              out_.trace.blocks - 1));
    }
    if (!blocks.empty() && b <= blocks.back()) {
      line.refuse(fmt::format("'recomputable' has block {} after {}; list each once, ascending", b,
                              blocks.back()));
    }
    blocks.push_back(static_cast<uint32_t>(b));
  }
}

template <class Read>
void TraceReader::section(const char* kind, uint64_t lines, Read read) {
  for (uint64_t id = 0; id < lines; ++id) {
    std::string_view text;
    if (!take_line(text)) {
      throw ConfigError(
          fmt::format("{}:{}: the file ends where {} {} of {} should come; it was cut off, or the "
                      "header counts "
                      "wrong",
                      file_, line_, kind, id, lines));
    }
    const JsonLine line(file_, line_, text);
    if (!line.has(kind)) {
      line.refuse(fmt::format(
          "is no {0}, but {0} {1} of {2} should come here; check the counts of the header", kind,
          id, lines));
    }
    if (line.count(kind, UINT64_MAX) != id) {
      line.refuse(
          fmt::format("'{0}' is not {1}; {0}s are numbered from 0 in their order", kind, id));
    }
    read(line);
  }
}

void TraceReader::read_tensor(const JsonLine& line) {
  line.only({"tensor", "name", "shape", "dtype", "group", "trainable", "decay", "tied_to"});
  ParamSpec p;
  p.name = line.text("name");
  uint64_t elems = 1;
  for (const uint64_t d : line.counts("shape")) {
    if (d == 0 || d > kMostElems / elems) {
      line.refuse(
          fmt::format("'shape' has a size of {}; sizes are positive, and a tensor has at most {} "
                      "elements",
                      d, kMostElems));
    }
    elems *= d;
    p.shape.push_back(static_cast<int64_t>(d));
  }
  const std::string dtype = line.text("dtype");
  if (dtype != name_of(DType::f32) && dtype != name_of(DType::bf16)) {
    line.refuse(fmt::format("'dtype' is {}; write fp32, or bf16 for any type of two bytes", dtype));
  }
  p.dtype = dtype == name_of(DType::f32) ? DType::f32 : DType::bf16;
  if (line.has("group")) p.group = static_cast<GroupId>(line.count("group", kMostGroup));
  if (line.has("trainable")) p.trainable = line.flag("trainable");
  if (line.has("decay")) p.decay = line.flag("decay");
  if (line.has("tied_to")) {
    const uint64_t tied_to = line.count("tied_to", UINT64_MAX);
    check_tie(line, p, tied_to);
    p.tied_to = static_cast<ParamId>(tied_to);
  } else {
    add(line, "bytes of tensors", tensor_bytes_, elems * size_of(p.dtype), kMostBytes);
  }
  out_.params.push_back(std::move(p));
}

void TraceReader::check_tie(const JsonLine& line, const ParamSpec& p, uint64_t tied_to) const {
  if (tied_to >= out_.params.size() || out_.params[tied_to].tied_to) {
    line.refuse("'tied_to' is not an earlier tensor that has storage of its own");
  }
  const ParamSpec& storage = out_.params[tied_to];
  if (storage.shape == p.shape && storage.dtype == p.dtype && storage.group == p.group &&
      storage.trainable == p.trainable) {
    return;
  }
  line.refuse(
      fmt::format("is tied to {}, which has another shape, dtype, group or trainability; "
                  "they are one storage",
                  tensor_text(static_cast<ParamId>(tied_to))));
}

void TraceReader::read_value(const JsonLine& line) {
  line.only({"value", "name", "bytes"});
  out_.trace.values.push_back({line.text("name"), line.count("bytes", kMostBytes)});
  add(line, "bytes of values", value_bytes_, out_.trace.values.back().bytes, kMostBytes);
}

/// Calls run forward by ascending block, backward by descending block, and then the tails. A file
/// in any other order could not be checked for values read too early as it is read.
TraceSegment& TraceReader::segment_of(const JsonLine& line) {
  Trace& trace = out_.trace;
  const std::string kind = line.text("kind");
  const uint64_t n = trace.blocks;
  const uint64_t block = line.count("block", UINT64_MAX);
  if (block >= n) {
    line.refuse(fmt::format("'block' is {}, but blocks are 0 to {}; see 'blocks' of the header",
                            block, n - 1));
  }
  CallKind call{};
  uint64_t place = 0;
  if (kind == name_of(CallKind::forward)) {
    call = CallKind::forward;
    place = block;
  } else if (kind == name_of(CallKind::backward)) {
    call = CallKind::backward;
    place = n + (n - 1 - block);
  } else if (kind == name_of(CallKind::tail)) {
    call = CallKind::tail;
    place = 2 * n + block;
  } else {
    line.refuse(fmt::format("'kind' is {}; write forward, backward or tail", kind));
  }
  if (trace.segments.empty() && call != CallKind::forward) {
    line.refuse(fmt::format("is a {} op before any forward op; a step begins forward", kind));
  }
  if (trace.segments.empty() || place > place_) {
    trace.segments.push_back({call, static_cast<uint32_t>(block), {}});
  } else if (place < place_) {
    const TraceSegment& last = trace.segments.back();
    line.refuse(
        fmt::format("is an op of {} {} after one of {} {}; forward comes by ascending block, then "
                    "backward by descending block, then the tails",
                    kind, block, name_of(last.kind), last.block));
  }
  place_ = place;
  return trace.segments.back();
}

void TraceReader::read_uses(const JsonLine& line, CallKind kind, TraceOp& op) {
  if (!line.has("uses")) return;
  for (const auto& [id, word] : line.labelled_counts("uses")) {
    if (id >= out_.params.size()) {
      line.refuse(
          fmt::format("'uses' has tensor {}, but tensors are 0 to {}", id, out_.params.size() - 1));
    }
    const AccessWord* const known = access_of(word);
    if (known == nullptr) {
      line.refuse(fmt::format("'uses' has the word {}; write read, write or accumulate", word));
    }
    const TensorUse use{static_cast<ParamId>(id), known->plane, known->access};
    OpIndex& used_at = used_at_[storage_of(use.param)][use.plane == Plane::weight ? 0 : 1];
    if (used_at == op_) {
      line.refuse(fmt::format("uses the {} of {}, or of one tied to it, twice; name it once",
                              name_of(use.plane), tensor_text(use.param)));
    }
    used_at = op_;
    if (use.plane == Plane::grad && !out_.params[use.param].trainable) {
      line.refuse(
          fmt::format("makes a gradient of {}, which is frozen; leave it out, or make it "
                      "trainable",
                      tensor_text(use.param)));
    }
    if (use.plane == Plane::grad && kind == CallKind::forward) {
      line.refuse(
          fmt::format("makes a gradient of {} in forward, which may run twice; make it in "
                      "backward",
                      tensor_text(use.param)));
    }
    op.uses.push_back(use);
  }
}

ValueId TraceReader::value_id(const JsonLine& line, uint64_t id) const {
  if (id >= values_) {
    line.refuse(fmt::format("names value {}, but there are {}, numbered from 0", id, values_));
  }
  return static_cast<ValueId>(id);
}

void TraceReader::read_values(const JsonLine& line, TraceOp& op) {
  for (const uint64_t id : line.has("in") ? line.counts("in") : std::vector<uint64_t>()) {
    const ValueId v = value_id(line, id);
    if (!made_[v]) {
      line.refuse(
          fmt::format("reads {} before any op makes it; ops come in the order in which "
                      "they run",
                      value_text(v)));
    }
    if (read_at_[v] == op_) {
      line.refuse(fmt::format("has {} twice in 'in'; name it once", value_text(v)));
    }
    read_at_[v] = op_;
    op.in.push_back(v);
  }
  for (const uint64_t id : line.has("out") ? line.counts("out") : std::vector<uint64_t>()) {
    const ValueId v = value_id(line, id);
    if (read_at_[v] == op_) {
      line.refuse(fmt::format("has {} as input and output; make another value", value_text(v)));
    }
    if (made_[v]) {
      line.refuse(
          fmt::format("makes {} again; a value is made once, so make another", value_text(v)));
    }
    made_[v] = true;
    op.out.push_back(v);
  }
}

void TraceReader::read_op(const JsonLine& line) {
  line.only({"op", "kind", "block", "name", "uses", "in", "out", "flops", "bytes", "workspace",
             "seconds"});
  TraceSegment& segment = segment_of(line);
  const auto optional = [&](const char* key, uint64_t most) {
    return line.has(key) ? line.count(key, most) : 0;
  };
  TraceOp op;
  op.name = line.text("name");
  op.flops = optional("flops", kMostFlops);
  op.bytes = optional("bytes", kMostBytes);
  op.workspace = optional("workspace", kMostBytes);
  add(line, "FLOPs", flops_, op.flops, kMostFlops);
  add(line, "bytes read and written", bytes_, op.bytes, kMostBytes);
  if (line.has("seconds")) {
    op.seconds = line.number("seconds");
    if (op.seconds <= 0 || op.seconds > kMostSeconds) {
      line.refuse(
          fmt::format("'seconds' is not above 0 and at most {}; leave it out where it is "
                      "not known",
                      kMostSeconds));
    }
  }
  read_uses(line, segment.kind, op);
  read_values(line, op);
  segment.ops.push_back(std::move(op));
  ++op_;
}

TraceFile TraceReader::read() {
  read_header();
  section("tensor", tensors_, [this](const JsonLine& line) { read_tensor(line); });
  section("value", values_, [this](const JsonLine& line) { read_value(line); });
  made_.resize(values_);
  read_at_.resize(values_, kNever);
  used_at_.resize(tensors_, {kNever, kNever});
  section("op", ops_, [this](const JsonLine& line) { read_op(line); });
  std::string_view text;
  if (take_line(text)) {
    throw ConfigError(
        fmt::format("{}:{}: a line comes after op {}, the last by the header; correct "
                    "its 'ops', or cut the rest off",
                    file_, line_, ops_ - 1));
  }
  return std::move(out_);
}

}  // namespace

TraceFile read_trace(std::string_view text, std::string_view name) {
  return TraceReader(text, name).read();
}

}  // namespace strata
