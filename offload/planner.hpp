// From programs, a policy and byte budgets to a plan that is proved to fit, or to what is missing.
// Pure: planning runs the engine itself in virtual time, so predicted peaks are the used ones.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "offload/engine.hpp"
#include "offload/simulator.hpp"
#include "runtime/virtual/virtual_backend.hpp"

namespace strata {

struct Budgets {
  std::array<size_t, kTiers> bytes{};
  /// What libraries and the process itself take of each tier, measured.
  std::array<size_t, kTiers> external{};
};

struct PlanInput {
  const ChunkLayout& layout;
  const StateShape& shape;
  /// The training program first, if there is one.
  std::vector<const Program*> programs;
  const Policy& policy;
  const Updater& updater;
  Budgets budgets;
  double clip = 0;
  VirtualRates rates;
  /// How long a plan that fits is simulated. Two steps show the peaks; the default has no more.
  SimulationLength simulation = {};
  Objective objective = Objective::time;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
};

struct TierReport {
  size_t budget = 0, peak = 0;
  std::array<size_t, kCategories> by_category{};
};

/// Bytes a tier lacks, and for what.
struct Shortfall {
  Tier tier;
  size_t bytes;
  std::string what;
};

struct PlanResult {
  bool fits = false;
  Plan plan;
  /// What an engine runs the plan with: the policy asked for, or the candidate it chose.
  std::shared_ptr<const Policy> policy;
  std::array<TierReport, kTiers> tiers;
  std::vector<Shortfall> shortfall;
  /// Smallest budgets under which this policy fits, externals included; for `auto` those of plain
  /// streaming, which it may still go below where host and NVMe do not hold all.
  std::array<size_t, kTiers> minimum{};
  Prediction prediction;
  /// As the policy that was asked for has it.
  std::string remark = {};
};

/// What policies plan from: units that fit the budgets, and so on.
PlacementInput placement_input(const PlanInput&);

PlanResult make_plan(const PlanInput&);

/// `DoesNotFit` text of a result that does not fit.
std::string describe_shortfall(const PlanResult&);

}  // namespace strata
