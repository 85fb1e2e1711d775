#include "train/direct_step.hpp"

#include <gtest/gtest.h>

#include "runtime/memory.hpp"
#include "train/random_tokens.hpp"

namespace strata {
namespace {

struct Case {
  const char* name;
  DType dtype;
  double clip;
  uint32_t micro_batches, recompute;
  uint64_t chunk_bytes;
  OptimizerKind optimizer;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
};

class DirectStepCases : public ::testing::TestWithParam<Case> {};

// What it times is the whole of a step, so it must compute what a session computes.
TEST_P(DirectStepCases, ComputesWhatASessionDoesToTheBit) {
  const Case& k = GetParam();
  SessionConfig config;
  config.model = "gpt2:L2,D32,H2,V96,T16";
  config.shape = {2, 16, k.micro_batches};
  config.dtype = k.dtype;
  config.clip = k.clip;
  config.recompute = k.recompute;
  config.order = k.order;
  config.chunk_bytes = k.chunk_bytes;
  config.optimizer.kind = k.optimizer;
  config.policy = "resident";
  config.threads = 2;
  config.evaluates = false;
  const Workload workload(config);
  Budgets budgets;
  budgets.bytes.fill(available_host_memory());
  Session session(workload, workload.plan(budgets), budgets);
  DirectStep direct(workload);
  const RandomTokens random(3, 96, config.shape.rows() * k.micro_batches);
  for (uint64_t s = 0; s < 4; ++s) {
    const StepParams params{s, 1e-2, static_cast<double>(random.tokens())};
    session.step(random.batch(s), params);
    const DirectStep::Times t = direct.step(random.batch(s), params);
    EXPECT_GT(t.compute, 0);
    EXPECT_GT(t.norm, 0);
    EXPECT_GT(t.update, 0);
    const StepResult r = session.result(0);
    EXPECT_EQ(direct.record().loss, r.loss) << "step " << s;
    EXPECT_EQ(direct.record().grad_norm, r.grad_norm) << "step " << s;
    EXPECT_TRUE(r.applied);
  }
  const ChunkLayout& layout = workload.layout();
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    for (const Plane plane : state_planes(workload, p)) {
      EXPECT_EQ(direct.read(p, plane), session.read(p, plane))
          << layout.params()[p].name << ", " << name_of(plane);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DirectStepCases,
    ::testing::Values(Case{"fp32", DType::f32, 0.5, 1, 0, 0, OptimizerKind::adamw},
                      Case{"bf16", DType::bf16, 0.5, 1, 0, 0, OptimizerKind::adamw},
                      Case{"bf16_unclipped", DType::bf16, 0, 1, 0, 0, OptimizerKind::adamw},
                      Case{"accumulating", DType::bf16, 0.5, 3, 0, 0, OptimizerKind::adamw},
                      Case{"accumulating_unclipped", DType::f32, 0, 2, 0, 0, OptimizerKind::sgd},
                      Case{"recomputing", DType::bf16, 0, 2, kAllBlocks, 0, OptimizerKind::adamw},
                      Case{"vertical", DType::bf16, 0.5, 3, 0, 0, OptimizerKind::adamw,
                           MicroBatchOrder::vertical},
                      Case{"spanning", DType::bf16, 0, 1, 0, 4096, OptimizerKind::adamw}),
    [](const ::testing::TestParamInfo<Case>& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace strata
