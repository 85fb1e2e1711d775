// What no plan can do better than. Pure.
#pragma once
#include "offload/planner.hpp"
#include "offload/policy/placement_lp.hpp"

namespace strata {

/// Bounds of the average step of any plan that the engine can carry out, for a program, rates and
/// budgets, from relaxed linear programs (`PlacementProgram`); units left to transfers are not
/// counted, so they hold for plans that need none.
struct Bound {
  /// False: nothing fits, and the rest is 0.
  bool feasible = false;
  /// Of all transfers, their bytes divided by the rates of their links.
  double transfer_seconds = 0;
  /// Bytes a step where that is least. Another plan may move less over one of the links.
  LinkUnits bytes;
  /// Of the step: compute, updates and transfers, by what shares a processor or a drive.
  double step_seconds = 0;
};

Bound bound_of(const PlanInput&);

/// What the program's ops take at full speed.
double compute_seconds(const Program&, const VirtualRates&);
/// What the step's updates take.
double update_seconds(const PlanInput&);
/// What a predicted step moves, divided by the rates of its links, as in `Bound`.
double transfer_seconds(const Prediction&, const VirtualRates&);

}  // namespace strata
