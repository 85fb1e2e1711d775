// What `strata sim` replays from a trace is what a session does with the model.
#include <gtest/gtest.h>

#include "models/registry.hpp"
#include "offload/trace_workload.hpp"
#include "tests/folder.hpp"
#include "train/session.hpp"

namespace strata {
namespace {

constexpr uint32_t kSteps = 4;

SessionConfig small(const std::string& policy, double clip) {
  SessionConfig c;
  c.model = "gpt2:L3,D32,H2,V97,T16";
  c.shape = {2, 16, 2};
  c.policy = policy;
  c.clip = clip;
  c.recompute = 2;
  c.evaluates = false;
  return c;
}

/// A third of the way from the smallest budget of the device to the largest useful one, with all
/// else on one tier.
Budgets some_budgets(const Workload& w, Tier below) {
  constexpr size_t kPlenty = size_t{1} << 32;
  Budgets b{{kPlenty, 0, 0}, {}};
  b.bytes[static_cast<size_t>(below)] = kPlenty;
  const PlanResult wide = w.plan(b);
  const size_t least = wide.minimum[0], most = std::max(least, wide.tiers[0].peak);
  b.bytes = wide.minimum;
  b.bytes[0] = least + (most - least) / 3;
  return b;
}

IssueLog real_log(const Workload& w, const PlanResult& plan, const Budgets& budgets,
                  uint64_t delay_seed) {
  IssueLog log;
  RunOptions options;
  options.log = &log;
  options.delay_seed = delay_seed;
  const Folder folder;
  options.nvme.directories = {folder.path()};
  Session session(w, plan, budgets, options);
  const uint64_t rows = w.config().shape.rows() * w.config().shape.micro_batches;
  std::vector<int32_t> tokens(rows, 3), targets(rows, 5);
  for (uint64_t s = 0; s < kSteps; ++s) {
    TokenBatch batch;
    batch.tokens = tokens.data();
    batch.targets = targets.data();
    session.step(batch, {s, 1e-3, static_cast<double>(rows)});
  }
  session.flush();
  session.result(0);
  return log;
}

void expect_same_log(const SessionConfig& c, Tier below) {
  const Workload workload(c);
  const Budgets budgets = some_budgets(workload, below);
  const PlanResult plan = workload.plan(budgets);
  ASSERT_TRUE(plan.fits);

  const auto model = make_model(c.model, {c.shape, c.dtype, c.threads});
  const TraceFile file{c.model, c.shape.rows(), model->params(), trace_model(*model, Mode::train)};
  TraceWorkloadConfig config;
  config.micro_batches = c.shape.micro_batches;
  config.recompute = c.recompute;
  const TraceWorkload traced(read_trace(write_trace(file), "here"), config);
  const auto policy = make_policy(c.policy);
  const PlanResult again = make_plan(traced.input(*policy, budgets, c.clip, c.rates));
  EXPECT_EQ(again.plan.hash(), plan.plan.hash());
  const PlanInput in = traced.input(*again.policy, budgets, c.clip, c.rates, {1, kSteps - 1});
  Ledger ledger(budgets.bytes);
  IssueLog log;
  simulate(in, again.plan, ledger, in.simulation, &log);
  ASSERT_GT(log.size(), 100u);
  for (const uint64_t delay_seed : {0u, 7u}) {
    EXPECT_TRUE(real_log(workload, plan, budgets, delay_seed) == log) << delay_seed;
  }
}

TEST(SimulatedLog, OfATraceEqualsThatOfTheRunningModel) {
  for (const PolicyInfo& info : policies()) {
    const std::string policy(info.name);
    for (const double clip : {0.0, 1.0}) {
      for (const Tier below : {Tier::host, Tier::nvme}) {
        SCOPED_TRACE(policy + ", clip " + std::to_string(clip) + ", " + name_of(below));
        expect_same_log(small(policy, clip), below);
      }
    }
  }
}

}  // namespace
}  // namespace strata
