#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/plan_explain.hpp"
#include "cli/plan_report.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"

namespace strata {

int run_plan(const PlanArgs& args) {
  Output out(args.json);
  const Budgets budgets = resolve_budgets(args.budget, !args.budget.machine.empty());
  SessionConfig config = session_config(args);
  config.order = args.model.order ? *args.model.order : choose_order(config, budgets);
  const Workload workload(config);
  const PlanResult plan = workload.plan(budgets);
  std::vector<Fix> fixes;
  if (!plan.fits) fixes = find_fixes(workload, plan, budgets);
  out.text(plan_table(workload, plan));
  if (plan.fits) {
    out.text(fmt::format(
        "At {} a step takes {:.1f} ms.",
        args.budget.machine.empty() ? "nominal rates" : "the rates of " + args.budget.machine,
        plan.prediction.step_seconds * 1e3));
  }
  if (plan.fits && args.explain) {
    out.text("\n" + explain_plan(workload.plan_input(budgets), plan));
  }
  if (!plan.fits) out.text(fixes_text(plan, fixes));
  out.result(plan_json(plan, fixes));
  return plan.fits ? 0 : 3;
}

}  // namespace strata
