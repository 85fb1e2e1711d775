// Why a plan keeps what it keeps, for people.
#pragma once
#include <string>

#include "offload/planner.hpp"

namespace strata {

/// A line for each run of chunks that are treated alike: where their planes live, what of the
/// device they hold between uses, what that saves a step against streaming them, and how much that
/// is for each MiB held, which is what decides. Then the tightest resource, and the bounds.
std::string explain_plan(const PlanInput&, const PlanResult&);

}  // namespace strata
