// When to issue fetches so that they find units free and come in time. Pure.
#pragma once
#include <vector>

#include "offload/policy/placement_lp.hpp"

namespace strata {

/// Hints for one program that carry out `choices`, one an object of the model: evictions where
/// something is not kept, updates, and fetches. The fetch with the earliest deadline is
/// issued first, as soon as units stay free from then until its use. `device_units`: all that are
/// not windows. `cyclic`: what the step's first ops use may be fetched at the end of the one
/// before.
std::vector<Action> schedule_transfers(const StepModel&, const std::vector<Choice>& choices,
                                       uint32_t device_units, bool cyclic);

}  // namespace strata
