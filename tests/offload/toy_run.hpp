// Trains the toy model under a configuration and returns all that must be bit-identical.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "offload/planner.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata::toy {

struct Config {
  Shape shape;
  uint32_t steps = 4, accum = 1, threads = 1;
  uint64_t chunk_elems = 2048;
  double clip = 0.5;
  OptimizerConfig optimizer;
  std::string policy = "resident";
  /// 0: the smallest budget that fits; 1: everything; between: a fraction of the way.
  double memory = 1;
  bool recompute = false;
  uint64_t delay_seed = 0;
  /// Evaluate between steps, while updates are pending.
  bool evaluate = false;
  /// Replaces the plan's actions.
  std::function<void(const std::vector<const Program*>&, Plan&)> tamper;
  Mutations mutations;
  bool virtual_time = false;
};

struct Outcome {
  std::vector<double> losses, norms, evaluations;
  /// Every plane of every tensor, as bytes.
  std::vector<std::vector<std::byte>> state;
  IssueLog log;
  EngineStats stats;
  std::array<size_t, kTiers> peaks{};
  PlanResult plan;

  bool same_numbers(const Outcome&) const;
};

Outcome run(const Config&);

}  // namespace strata::toy
