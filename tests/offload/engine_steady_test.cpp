// From the third step on the issuer allocates nothing: every operator new of this program counts.
#include <gtest/gtest.h>

#include "tests/counted_allocations.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

TEST(EngineSteadyState, TheCounterCounts) {
  const uint64_t before = allocations;
  const auto made = std::make_unique<std::vector<int>>(5);
  EXPECT_EQ(allocations - before, 2u);
}

TEST(EngineSteadyState, IssuingAllocatesNothing) {
  for (const std::string& policy : every_policy({"gemini:n=2"})) {
    for (const double clip : {0.0, 0.5}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Config c;
        c.record = {2, 3};
        c.shape = {3, 40, 100, 6, dtype};
        c.policy = policy;
        c.memory = 0.1;
        c.clip = clip;
        c.accum = dtype == DType::bf16 ? 2 : 1;
        c.keep_log = false;
        Rig rig(c);
        for (uint64_t s = 0; s < 6; ++s) {
          rig.fill_batch(s);
          const uint64_t before = allocations;
          rig.run(0, rig.params_of(s));
          if (s > 0) rig.engine->result(1);
          rig.evaluate();
          rig.engine->evaluation_loss();
          if (s >= 2) {
            EXPECT_EQ(allocations - before, 0u) << policy << " clip " << clip << " step " << s;
          }
        }
        EXPECT_GT(rig.engine->stats().updates, 0u);
        rig.backend->drain();
        EXPECT_FALSE(rig.timeline->work(Resource::compute).empty()) << "it was recorded";
      }
    }
  }
}

}  // namespace
}  // namespace strata::toy
