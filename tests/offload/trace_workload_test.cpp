#include "offload/trace_workload.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"
#include "tests/offload/same_program.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata {
namespace {

TraceFile toy_trace() {
  toy::Model model({3, 24, 40, 6, DType::f32});
  TraceFile file{"toy", 6, model.params(), model.trace(true)};
  file.trace.recomputable = {1, 2, 3};
  return file;
}

TEST(TraceWorkload, IsLaidOutAndLoweredAsItsConfigSays) {
  const TraceFile file = toy_trace();
  TraceWorkloadConfig c;
  c.micro_batches = 3;
  c.recompute = 2;
  c.chunk_bytes = 16384;
  c.optimizer.kind = OptimizerKind::sgd;
  const TraceWorkload w(file, c);
  EXPECT_EQ(w.layout().chunk_elems(), 4096u);
  EXPECT_EQ(w.shape().units({0, Plane::m}), 0u) << "SGD without momentum";
  expect_same_program(
      w.program(), Program::lower(file.trace, w.layout(), {3, {false, true, true, false, false}}));
}

TEST(TraceWorkload, PlansAsTheModelDoes) {
  toy::Config c;
  c.shape = {3, 24, 40, 6, DType::f32};
  c.policy = "lru";
  toy::Plans plans(c);
  const Budgets budgets = plans.budgets();
  PlanInput of_model = plans.input(budgets);
  of_model.programs = {&plans.train};
  const PlanResult expected = make_plan(of_model);
  TraceWorkloadConfig config;
  config.chunk_bytes = c.chunk_elems * 4;
  const TraceWorkload w(read_trace(write_trace(toy_trace()), "here"), config);
  const auto policy = make_policy(c.policy);
  const PlanResult r = make_plan(w.input(*policy, budgets, c.clip, {}));
  EXPECT_EQ(r.plan.hash(), expected.plan.hash());
  EXPECT_EQ(r.prediction.step_seconds, expected.prediction.step_seconds);
  EXPECT_EQ(r.minimum, expected.minimum);
}

TEST(TraceWorkload, TokensScaleWhatGrowsWithThem) {
  TraceFile file = toy_trace();
  TraceOp& op = file.trace.segments[1].ops[0];
  op.seconds = 0.5;
  op.flops = 1001;
  op.bytes = 11;
  op.workspace = 7;
  file.trace.values[0].bytes = 25;
  EXPECT_EQ(with_tokens(file, 6), file);
  const TraceFile twice = with_tokens(file, 12), less = with_tokens(file, 2);
  EXPECT_EQ(twice.tokens, 12u);
  EXPECT_EQ(twice.params, file.params);
  const TraceOp &big = twice.trace.segments[1].ops[0], &small = less.trace.segments[1].ops[0];
  EXPECT_EQ(big.flops, 2002u);
  EXPECT_EQ(big.bytes, 22u);
  EXPECT_EQ(big.workspace, 14u);
  EXPECT_EQ(big.seconds, 1.0);
  EXPECT_EQ(twice.trace.values[0].bytes, 50u);
  EXPECT_EQ(small.flops, 334u) << "rounded up";
  EXPECT_EQ(small.bytes, 4u);
  EXPECT_EQ(small.workspace, 3u);
  EXPECT_EQ(less.trace.values[0].bytes, 9u);
  EXPECT_EQ(big.uses, op.uses);
}

TEST(TraceWorkload, TokensBeyondTheFormatAreRefused) {
  TraceFile file = toy_trace();
  const auto refused = [&](const char* what) {
    try {
      with_tokens(file, 600);
      ADD_FAILURE() << "taken: " << what;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  TraceOp& op = file.trace.segments[0].ops[0];
  op.flops = TraceFile::kMostFlops / 99;
  refused("FLOPs");
  op.flops = 0;
  op.workspace = TraceFile::kMostBytes / 99;
  refused("workspace");
  op.workspace = 0;
  file.trace.values[0].bytes = file.trace.values[1].bytes = TraceFile::kMostBytes / 150;
  refused("values");
}

}  // namespace
}  // namespace strata
