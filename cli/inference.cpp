#include "cli/inference.hpp"

#include <nlohmann/json.hpp>

#include "cli/run_setup.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {

Inference::Inference(const std::string& path, const BudgetArgs& budget, Mode mode)
    : found_(find_checkpoint(path)), run_(train_args_of(found_.manifest, {})) {
  run_.budget = budget;
  SessionConfig config = session_config(run_);
  config.shape.micro_batches = 1;
  config.trains = false;
  config.evaluates = mode == Mode::eval;
  config.generates = mode == Mode::generate;
  workload_.emplace(config);
  budgets_ = resolve_budgets(budget);
  const PlanResult plan = workload_->plan(budgets_);
  if (!plan.fits) throw DoesNotFit(describe_shortfall(plan));
  RunOptions options;
  options.nvme = {budget.nvme, budget.nvme_engine, !budget.nvme_unchecked};
  options.initialize = false;
  session_.emplace(*workload_, plan, budgets_, options);
  load_checkpoint(watched_files(), found_.entry.path, found_.manifest, *workload_, *session_);
}

std::string Inference::json() const {
  nlohmann::ordered_json j = {{"checkpoint", found_.entry.path}, {"step", found_.manifest.step}};
  for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
    j["tiers"][name_of(t)] = {{"budget", budgets_.bytes[static_cast<size_t>(t)]},
                              {"peak", session_->ledger().peak(t)}};
  }
  return j.dump();
}

}  // namespace strata
