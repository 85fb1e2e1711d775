// A trace made ready to be planned, again and again, for any policy, budgets and machine. Pure.
#pragma once
#include <memory>

#include "offload/planner.hpp"
#include "offload/trace_file.hpp"

namespace strata {

struct TraceWorkloadConfig {
  uint32_t micro_batches = 1;
  /// The first so many of the blocks that can be are rebuilt in backward.
  uint32_t recompute = 0;
  /// Bytes of a chunk's weights; 0: searched.
  uint64_t chunk_bytes = 0;
  OptimizerConfig optimizer;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
};

/// Layout, program and state of a trace, as a session has them of a model.
class TraceWorkload {
 public:
  /// Throws ConfigError where no layout is possible.
  TraceWorkload(const TraceFile&, const TraceWorkloadConfig&);
  TraceWorkload(const TraceWorkload&) = delete;

  const ChunkLayout& layout() const noexcept { return layout_; }
  const Program& program() const noexcept { return program_; }
  const StateShape& shape() const noexcept { return shape_; }
  /// Refers to this and to the policy.
  PlanInput input(const Policy& policy, const Budgets& budgets, double clip,
                  const VirtualRates& rates, SimulationLength simulation = {}) const {
    return {layout_, shape_, {&program_}, policy, *updater_, budgets, clip, rates, simulation};
  }

 private:
  ChunkLayout layout_;
  Program program_;
  StateShape shape_;
  std::unique_ptr<Updater> updater_;
};

/// The trace of a micro-batch of so many tokens: FLOPs, bytes, seconds, values and workspaces are
/// scaled in proportion, as if there were more sequences, and rounded up. Exact where all of them
/// grow with tokens; workspaces of a thread, say, do not, and attention over longer sequences grows
/// faster. Throws ConfigError where something grows beyond what a trace may have.
TraceFile with_tokens(TraceFile, uint64_t tokens);

}  // namespace strata
