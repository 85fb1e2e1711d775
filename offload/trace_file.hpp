// The trace of a training step as a text of JSON lines: docs/trace-format.md. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offload/trace.hpp"

namespace strata {

/// A trace and what it names. No chunk, budget or rank count is in it.
struct TraceFile {
  static constexpr uint64_t kVersion = 1;
  /// Far above any machine; sums over a step stay far below 2^64.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 50, kMostFlops = uint64_t{1} << 60;

  /// What was traced, for people.
  std::string model;
  /// Tokens of a micro-batch, or whatever else its rate is counted in; at least 1.
  uint64_t tokens = 1;
  std::vector<ParamSpec> params;
  Trace trace;
  bool operator==(const TraceFile&) const = default;
};

/// What `read_trace` reads back; block calls without ops are not written. Throws ConfigError, as
/// `read_trace` would, when the trace breaks a rule of the format.
std::string write_trace(const TraceFile&);

/// Takes time and memory in proportion to the text. What it returns can be laid out and lowered:
/// every rule that `Program::lower` and `ChunkLayout::build` rely on was checked. Throws
/// ConfigError "NAME:LINE: what is wrong, and what to do".
TraceFile read_trace(std::string_view text, std::string_view name);

}  // namespace strata
