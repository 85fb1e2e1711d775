// `strata sim`.
#include <fmt/format.h>

#include <algorithm>

#include "cli/chrome_trace.hpp"
#include "cli/machine_probe.hpp"
#include "cli/output.hpp"
#include "cli/sim_report.hpp"
#include "cli/sizes.hpp"
#include "cli/verbs.hpp"
#include "offload/trace_workload.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"

namespace strata {
namespace {

/// Steps until what a step does repeats: the first has no updates to make, and the issuer runs a
/// step ahead.
constexpr uint32_t kWarmUp = 3;
/// The most ops that a trace may have, at 256 bytes a line.
constexpr uint64_t kMostTraceBytes = uint64_t{4} << 30;

/// Recorded, after as many as lead to the steady state.
constexpr uint32_t kTracedSteps = 2;

/// The timeline of a plan's steps.
void write_timeline(const std::string& path, const TraceFile& file, const PlanInput& in,
                    const PlanResult& planned) {
  const PlanInput input = {in.layout,  in.shape,   in.programs, *planned.policy,
                           in.updater, in.budgets, in.clip,     in.rates};
  const auto chunks = static_cast<uint32_t>(in.layout.chunks());
  Timeline timeline(*in.programs.front(), in.shape, chunks, {kWarmUp, kTracedSteps});
  Ledger ledger(in.budgets.bytes);
  std::vector<Reservation> external;
  for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
    external.push_back(
        ledger.reserve(t, Category::external, in.budgets.external[static_cast<size_t>(t)]));
  }
  // A step more, so that what is recorded ends as in the steady state.
  simulate(input, planned.plan, ledger, {kWarmUp, kTracedSteps + 1}, nullptr, &timeline);
  write_chrome_trace(path, timeline,
                     {*in.programs.front(),
                      in.layout,
                      in.shape,
                      "simulated",
                      {{"model", file.model}, {"policy", planned.plan.policy}}});
}

/// Every combination, tokens outermost, policies innermost.
std::vector<SimRow> simulate_all(const SimArgs& args, const TraceFile& file,
                                 const VirtualRates& rates) {
  std::vector<std::unique_ptr<Policy>> policies;
  for (const std::string& spec : args.policies) policies.push_back(make_policy(spec));
  if (policies.empty()) policies.push_back(make_policy("auto"));
  std::vector<uint64_t> tokens = args.tokens;
  if (tokens.empty()) tokens.push_back(file.tokens);
  const TraceWorkloadConfig config{args.accum, args.recompute, args.chunk_bytes, args.optimizer,
                                   args.order};
  std::vector<SimRow> rows;
  for (const uint64_t n : tokens) {
    const TraceWorkload workload(with_tokens(file, n), config);
    for (const uint64_t device : args.device_mem) {
      for (const auto& policy : policies) {
        SimRow row;
        row.policy = policy->name();
        row.budgets = {device, args.host_mem, args.nvme_mem};
        row.tokens = n;
        row.accum = args.accum;
        row.steps = args.steps;
        PlanInput input =
            workload.input(*policy, {row.budgets, {}}, args.clip, rates, {kWarmUp, args.steps});
        input.objective = args.objective;
        input.overlap = args.overlap;
        row.plan = make_plan(input);
        if (row.plan.fits && !args.chrome_trace.empty()) {
          write_timeline(args.chrome_trace, file, input, row.plan);
        }
        row.roofline = roofline(row.plan.prediction.work, rates);
        if (!args.no_bound) row.bound = bound_of(input);
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

/// What was simulated, for a run that has no other words for it.
std::string heading(const SimArgs& args, const TraceFile& file, const SimRow& r) {
  return fmt::format(
      "Trace     {}: {}, {} tokens x {}\nPlan      policy {}, rates {}, device {}, host {}, "
      "nvme {}",
      args.trace, file.model, r.tokens, r.accum, r.policy,
      args.machine.empty() ? "nominal" : "of " + args.machine, format_bytes(r.budgets[0]),
      format_bytes(r.budgets[1]), format_bytes(r.budgets[2]));
}

}  // namespace

int run_sim(const SimArgs& args) {
  const SimFormat format = args.json ? SimFormat::json : args.format;
  Output out(format == SimFormat::json);
  const TraceFile file =
      read_trace(read_text(real_files(), args.trace, kMostTraceBytes), args.trace);
  VirtualRates rates;
  if (!args.machine.empty()) {
    rates = rates_of(load_machine(args.machine), file.params.front().dtype);
  }
  const std::vector<SimRow> rows = simulate_all(args, file, rates);
  const bool sweep = rows.size() > 1;
  const bool any_fits =
      std::any_of(rows.begin(), rows.end(), [](const SimRow& r) { return r.plan.fits; });
  const auto in_words = [&] {
    if (sweep) return sim_table(rows);
    if (any_fits) return heading(args, file, rows.front()) + "\n" + sim_text(rows.front());
    return describe_shortfall(rows.front().plan) +
           "; give as much, or try --recompute block, --chunk-size, --tokens or another --policy";
  };
  switch (format) {
    case SimFormat::csv: out.text(sim_csv(rows)); break;
    case SimFormat::markdown: out.text(sim_markdown(rows)); break;
    case SimFormat::json:
      out.text(in_words());
      out.result(sim_json(rows, sweep));
      break;
    case SimFormat::text:
      if (!sweep && !any_fits) throw DoesNotFit(in_words());
      out.text(in_words());
  }
  return any_fits ? 0 : 3;
}

}  // namespace strata
