#include "offload/policy/gemini.hpp"

#include <algorithm>

namespace strata {

size_t GeminiPolicy::choose_victim(std::span<const Victim> victims) const {
  const auto distance = [](const Victim& v) { return std::min(v.next_use, v.program_end); };
  // The first of equals: they come in the order in which chunks were made.
  return static_cast<size_t>(std::ranges::max_element(victims, {}, distance) - victims.begin());
}

}  // namespace strata
