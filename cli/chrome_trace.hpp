// A timeline as Chrome's and Perfetto's trace format has it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "offload/timeline.hpp"

namespace strata {

/// What a timeline's numbers stand for.
struct TimelineNames {
  const Program& program;
  const ChunkLayout& layout;
  const StateShape& shape;
  /// "measured" or "simulated".
  std::string source;
  /// More about the run, e.g. model and policy; kept beside the events.
  nlohmann::ordered_json about;
};

/// One object: slices of each stream's work and waits, with arrows from a transfer to the op that
/// waited for it; a counter of bytes in use for each tier; and, as a second process, the time that
/// each plane of each chunk was on the device. Times are in microseconds from the first event.
nlohmann::ordered_json chrome_trace(const Timeline&, const TimelineNames&);

/// Throws IoError; a file that was there before stays whole until the new one is.
void write_chrome_trace(const std::string& path, const Timeline&, const TimelineNames&);

}  // namespace strata
