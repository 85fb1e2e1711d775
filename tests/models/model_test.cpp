// A model's canonical trace, and models by name.
#include "models/model.hpp"

#include <gtest/gtest.h>

#include "models/registry.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

/// Three blocks that write down how they are called; one op a call. The last has no backward, and
/// only the first a tail.
class Recorder final : public Model {
 public:
  const std::vector<ParamSpec>& params() const override { return params_; }
  const std::vector<ValueSpec>& values() const override { return values_; }
  uint32_t blocks() const override { return 3; }
  uint32_t vocabulary() const override { return 1; }
  uint32_t positions() const override { return 1; }
  bool recomputable(uint32_t) const override { return false; }
  void initialize(ParamId, uint64_t, uint64_t, uint64_t, float*) const override {}

  void run(OpSink& sink, CallKind kind, uint32_t block, Mode mode) override {
    calls += std::string(name_of(kind)) + std::to_string(block) +
             (mode == Mode::train  ? " "
              : mode == Mode::eval ? "e "
                                   : "g ");
    if (kind == CallKind::backward && block == 2) return;
    if (kind == CallKind::tail && block != 0) return;
    sink.op({"op", 10 * block}, {reads(0)}, {}, {}, [](OpScope&) { FAIL() << "a body was run"; });
  }

  std::string calls;

 private:
  std::vector<ParamSpec> params_ = {{"w", {4}, DType::f32, 0, true, true, {}}};
  std::vector<ValueSpec> values_ = {{"x", 64}};
};

std::string segments(const Trace& trace) {
  std::string text;
  for (const TraceSegment& s : trace.segments) {
    text += std::string(name_of(s.kind)) + std::to_string(s.block) + "x" +
            std::to_string(s.ops.size()) + " ";
  }
  return text;
}

TEST(Model, TrainingIsTracedForwardBackwardAndTail) {
  Recorder model;
  const Trace trace = trace_model(model, Mode::train);
  EXPECT_EQ(model.calls,
            "forward0 forward1 forward2 backward2 backward1 backward0 tail0 tail1 tail2 ");
  EXPECT_EQ(trace.blocks, 3u);
  ASSERT_EQ(trace.values.size(), 1u);
  EXPECT_EQ(trace.values[0].bytes, 64u);
  const TraceSegment* forward = trace.find(CallKind::forward, 2);
  ASSERT_NE(forward, nullptr);
  ASSERT_EQ(forward->ops.size(), 1u);
  EXPECT_EQ(forward->ops[0].flops, 20u);
}

TEST(Model, EvaluationIsTracedForward) {
  Recorder model;
  const Trace trace = trace_model(model, Mode::eval);
  EXPECT_EQ(model.calls, "forward0e forward1e forward2e ");
  EXPECT_EQ(segments(trace), "forward0x1 forward1x1 forward2x1 ");
}

TEST(Model, TracingTwiceGivesTheSame) {
  const auto model = make_model("gpt2:L2,D32,H2,V97,T16", {{2, 12, 1}, DType::bf16, 2});
  const Trace a = trace_model(*model, Mode::train), b = trace_model(*model, Mode::train);
  EXPECT_EQ(segments(a), segments(b));
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t s = 0; s < a.segments.size(); ++s) {
    for (size_t i = 0; i < a.segments[s].ops.size(); ++i) {
      const TraceOp &x = a.segments[s].ops[i], &y = b.segments[s].ops[i];
      EXPECT_EQ(x.name, y.name);
      EXPECT_EQ(x.flops, y.flops);
      EXPECT_EQ(x.workspace, y.workspace);
      EXPECT_EQ(x.in, y.in);
      EXPECT_EQ(x.out, y.out);
    }
  }
}

TEST(Model, ModelsAreMadeByName) {
  const ModelOptions options{{1, 8, 1}, DType::f32, 1};
  EXPECT_EQ(make_model("gpt2:L2,D32,H2,V97,T16", options)->blocks(), 4u);
  EXPECT_THROW(make_model("llama", options), ConfigError);
  EXPECT_THROW(make_model("gpt2:L2,D32,H2,V97,T7", options), ConfigError);
}

TEST(Model, TheKernelSetSaysWhatDecidesBits) {
  EXPECT_FALSE(kernel_set().empty());
  EXPECT_EQ(kernel_set(), kernel_set());
}

}  // namespace
}  // namespace strata
