// Trains the toy model under a configuration and returns all that must be bit-identical.
#pragma once
#include <array>
#include <vector>

#include "tests/offload/toy_rig.hpp"

namespace strata::toy {

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
