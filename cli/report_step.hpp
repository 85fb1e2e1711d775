// One step of a recorded or simulated timeline, small enough for a page.
#pragma once
#include <nlohmann/json.hpp>

namespace strata {

/// Of the object that `chrome_trace` makes: the step in the middle, from its first op to the next
/// step's, with times in seconds from its begin.
///
///   source, step, seconds
///   tracks   names of streams
///   names    texts that the rest refers to by index
///   slices   [track, kind, name, begin, seconds, chunk or -1, detail, bytes]; kinds are
///            op, move, update, norm, wait
///   stays    [chunk, plane, begin, seconds]: when copies were on the device
///   chunks   {chunk: its tensors}
///   usage    {tier: {times: [...], bytes: {category: [...]}}}
///
/// Throws nlohmann's exceptions where the object is not like that, and ConfigError where it holds
/// no op.
nlohmann::ordered_json report_step(const nlohmann::ordered_json& trace);

}  // namespace strata
