// The flags that verbs share, in groups. Default values are read from the targets.
#pragma once
#include "cli/flags.hpp"
#include "cli/options.hpp"

namespace strata {

/// What the user said of values whose defaults depend on others.
struct Given {
  CLI::Option* min_lr = nullptr;
  CLI::Option* warmup = nullptr;
};

/// A model and the shape of a micro-batch.
void add_micro_batch(Flags& flags, ModelArgs& args);
void add_model(Flags& flags, ModelArgs& args, bool with_recompute);
Given add_optimizer(Flags& flags, OptimizerArgs& args, bool with_schedule);
void add_threads(Flags& flags, uint32_t& threads);
void add_chunk_size(Flags& flags, uint64_t& bytes);
void add_order(Flags&, std::optional<MicroBatchOrder>&);
void add_objective(Flags&, Objective&);
void add_overlap(Flags&, OptimizerOverlap&);
void add_checksums(Flags&, bool& unchecked);
void add_recompute(Flags& flags, uint32_t& blocks);
void add_budget(Flags& flags, BudgetArgs& args);
/// When and where a run saves, and when it stops.
void add_saving(Flags& flags, SaveArgs& args);
/// What a run records.
void add_observing(Flags& flags, ObserveArgs& args);
/// Everything that describes a run.
Given add_run(CLI::App& app, RunArgs& args, const char* seed_help);

}  // namespace strata
