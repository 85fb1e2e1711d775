#include "models/gpt2.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr uint32_t kLayers = 4, kWidth = 64, kHeads = 4, kVocabulary = 200, kPositions = 40;
constexpr uint32_t kBatch = 3, kSeq = 24, kRows = kBatch * kSeq;

Gpt2 make(DType dtype = DType::f32) {
  return Gpt2({kLayers, kWidth, kHeads, kVocabulary, kPositions}, {{kBatch, kSeq, 1}, dtype, 2});
}

ParamId id(const Gpt2& model, const std::string& name) {
  for (ParamId p = 0; p < model.params().size(); ++p) {
    if (model.params()[p].name == name) return p;
  }
  throw std::out_of_range("no parameter " + name);
}

std::vector<float> initial(const Gpt2& model, ParamId p, uint64_t seed) {
  std::vector<float> out(model.params()[p].elems());
  model.initialize(p, seed, 0, out.size(), out.data());
  return out;
}

// ---- parameters

TEST(Gpt2, NamesAndShapesAreHuggingFaces) {
  const Gpt2 model = make();
  const int64_t d = kWidth;
  const auto shape = [&](const std::string& name) { return model.params()[id(model, name)].shape; };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(model.params().size(), 4u + 12u * kLayers);
  EXPECT_EQ(shape("wte.weight"), (Shape{kVocabulary, d}));
  EXPECT_EQ(shape("wpe.weight"), (Shape{kPositions, d}));
  EXPECT_EQ(shape("h.3.attn.c_attn.weight"), (Shape{d, 3 * d}));
  EXPECT_EQ(shape("h.3.attn.c_proj.weight"), (Shape{d, d}));
  EXPECT_EQ(shape("h.3.mlp.c_fc.weight"), (Shape{d, 4 * d}));
  EXPECT_EQ(shape("h.3.mlp.c_proj.weight"), (Shape{4 * d, d}));
  EXPECT_EQ(shape("h.3.mlp.c_fc.bias"), (Shape{4 * d}));
  EXPECT_EQ(shape("ln_f.bias"), (Shape{d}));
  std::set<std::string> names;
  for (const ParamSpec& p : model.params()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(p.decay, p.shape.size() == 2) << "decay on matrices only: " << p.name;
    EXPECT_TRUE(p.trainable);
  }
}

TEST(Gpt2, ASequenceLongerThanThePositionsIsRefused) {
  const Gpt2Config config{kLayers, kWidth, kHeads, kVocabulary, kPositions};
  EXPECT_NO_THROW(Gpt2(config, {{1, kPositions, 1}, DType::f32, 1}));
  try {
    Gpt2(config, {{1, kPositions + 1, 1}, DType::f32, 1});
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    for (const char* part : {"41", "40 positions", "--seq"}) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
}

// ---- initial weights

TEST(Gpt2, MatricesStartNormalWithGpt2sDeviations) {
  const Gpt2 model = make();
  for (ParamId p = 0; p < model.params().size(); ++p) {
    const ParamSpec& spec = model.params()[p];
    if (spec.shape.size() != 2) continue;
    double sum = 0, squares = 0, fourth = 0;
    const std::vector<float> w = initial(model, p, 7);
    for (const float x : w) {
      sum += x;
      squares += double(x) * x;
      fourth += double(x) * x * x * x;
    }
    const auto n = static_cast<double>(w.size());
    const bool residual = spec.name.ends_with("c_proj.weight");
    const double deviation = residual ? 0.02 / std::sqrt(2.0 * kLayers) : 0.02;
    // Five deviations of what so many draws of a normal give.
    EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << spec.name;
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n)) << spec.name;
    EXPECT_NEAR(fourth / n / std::pow(deviation, 4), 3, 5 * std::sqrt(96 / n)) << spec.name;
  }
}

TEST(Gpt2, NormsStartAtOneAndBiasesAtZero) {
  const Gpt2 model = make();
  for (ParamId p = 0; p < model.params().size(); ++p) {
    const ParamSpec& spec = model.params()[p];
    if (spec.shape.size() != 1) continue;
    const float value = spec.name.ends_with(".weight") ? 1.0f : 0.0f;
    for (const float x : initial(model, p, 7)) ASSERT_EQ(x, value) << spec.name;
  }
}

TEST(Gpt2, InitialWeightsDoNotDependOnHowTheyAreCut) {
  const Gpt2 model = make();
  const ParamId p = id(model, "h.1.mlp.c_fc.weight");
  const std::vector<float> whole = initial(model, p, 7);
  std::vector<float> cut(whole.size(), NAN);
  const uint64_t steps[] = {1, 7, 64, 1000, 3};
  uint64_t i = 0;
  for (uint64_t at = 0; at < cut.size();) {
    const uint64_t n = std::min<uint64_t>(steps[i++ % 5], cut.size() - at);
    model.initialize(p, 7, at, n, cut.data() + at);
    at += n;
  }
  EXPECT_EQ(cut, whole);
}

TEST(Gpt2, SeedsAndTensorsHaveTheirOwnNumbers) {
  const Gpt2 model = make();
  const auto first = [&](const char* name, uint64_t seed) {
    return initial(model, id(model, name), seed)[0];
  };
  std::set<float> seen;
  for (const uint64_t seed : {1u, 2u}) {
    for (const char* name :
         {"wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight", "h.1.mlp.c_fc.weight"}) {
      EXPECT_TRUE(seen.insert(first(name, seed)).second) << name << ", seed " << seed;
    }
  }
}

// ---- trace

TEST(Gpt2, EveryValueIsMadeBeforeItIsRead) {
  Gpt2 model = make();
  std::vector<bool> used(model.values().size(), false);
  for (const Mode mode : {Mode::train, Mode::eval, Mode::generate}) {
    const Trace trace = trace_model(model, mode);
    std::vector<bool> made(trace.values.size(), false);
    for (const TraceSegment& s : trace.segments) {
      for (const TraceOp& op : s.ops) {
        EXPECT_FALSE(op.name.empty());
        for (const ValueId v : op.in) {
          ASSERT_LT(v, made.size());
          EXPECT_TRUE(made[v]) << op.name << " reads " << trace.values[v].name;
          EXPECT_EQ(std::count(op.out.begin(), op.out.end(), v), 0)
              << op.name << " makes what it reads: " << trace.values[v].name;
          used[v] = true;
        }
        for (const ValueId v : op.out) {
          EXPECT_FALSE(made[v]) << op.name << " makes " << trace.values[v].name << " again";
          made[v] = true;
        }
      }
    }
  }
  for (ValueId v = 0; v < used.size(); ++v) EXPECT_EQ(used[v], true) << model.values()[v].name;
}

TEST(Gpt2, TrainingGivesEachTensorOneGradientAndTheEmbeddingTwo) {
  Gpt2 model = make();
  const Trace trace = trace_model(model, Mode::train);
  std::vector<uint32_t> reads(model.params().size()), writes(reads), adds(reads);
  for (const TraceSegment& s : trace.segments) {
    for (const TraceOp& op : s.ops) {
      EXPECT_NE(op.name, "evaluate") << "the loss comes with its gradient";
      for (const TensorUse& u : op.uses) {
        EXPECT_EQ(u.plane == Plane::weight, u.access == Access::read) << op.name;
        EXPECT_TRUE(u.plane == Plane::weight || s.kind != CallKind::forward) << op.name;
        ++(u.access == Access::read ? reads : u.access == Access::write ? writes : adds)[u.param];
      }
    }
  }
  for (ParamId p = 0; p < reads.size(); ++p) {
    EXPECT_GE(reads[p], 1u) << model.params()[p].name;
    EXPECT_EQ(writes[p], 1u) << model.params()[p].name;
    EXPECT_EQ(adds[p], model.params()[p].name == "wte.weight" ? 1u : 0u) << "rows of the lookup";
  }
}

TEST(Gpt2, EvaluationIsForwardOnlyAndEndsWithTheLoss) {
  Gpt2 model = make();
  const Trace trace = trace_model(model, Mode::eval);
  ASSERT_EQ(trace.segments.size(), model.blocks());
  for (const TraceSegment& s : trace.segments) {
    EXPECT_EQ(s.kind, CallKind::forward);
    for (const TraceOp& op : s.ops) {
      for (const TensorUse& u : op.uses) EXPECT_EQ(u.plane, Plane::weight) << op.name;
    }
  }
  EXPECT_EQ(trace.segments.back().ops.back().name, "evaluate");
  EXPECT_EQ(trace.segments.back().ops.back().flops, 2ull * kRows * kVocabulary * kWidth);
}

TEST(Gpt2, GeneratingIsForwardOnlyAndEndsWithOneRowOfLogits) {
  Gpt2 model = make();
  const Trace trace = trace_model(model, Mode::generate);
  ASSERT_EQ(trace.segments.size(), model.blocks());
  for (const TraceSegment& s : trace.segments) {
    EXPECT_EQ(s.kind, CallKind::forward);
    for (const TraceOp& op : s.ops) {
      for (const TensorUse& u : op.uses) EXPECT_EQ(u.plane, Plane::weight) << op.name;
    }
  }
  const auto& head = trace.segments.back().ops;
  ASSERT_EQ(head.size(), 3u);
  EXPECT_EQ(head[1].flops, 2ull * kVocabulary * kWidth) << "of one row";
  EXPECT_EQ(trace.values[head[1].out.at(0)].bytes, kVocabulary * sizeof(float));
  EXPECT_EQ(head[2].name, "store");
  EXPECT_EQ(head[2].in, head[1].out);
}

TEST(Gpt2, LinearLayersCountSixTimesTheirWeightsAToken) {
  Gpt2 model = make();
  const Trace trace = trace_model(model, Mode::train);
  std::vector<uint64_t> linear(model.blocks(), 0);
  uint64_t loss = 0;
  for (const TraceSegment& s : trace.segments) {
    for (const TraceOp& op : s.ops) {
      const auto named = [&](const char* part) { return op.name.find(part) != std::string::npos; };
      if (named("c_attn") || named("c_proj") || named("c_fc")) linear[s.block] += op.flops;
      if (named("loss")) loss += op.flops;
    }
  }
  for (uint32_t b = 0; b < model.blocks(); ++b) {
    EXPECT_EQ(linear[b], model.recomputable(b) ? 6ull * kRows * 12 * kWidth * kWidth : 0u) << b;
  }
  EXPECT_EQ(loss, 6ull * kRows * kVocabulary * kWidth);
}

TEST(Gpt2, LayersAndNothingElseAreRecomputed) {
  const Gpt2 model = make();
  ASSERT_EQ(model.blocks(), kLayers + 2);
  for (uint32_t b = 0; b < model.blocks(); ++b) {
    EXPECT_EQ(model.recomputable(b), b >= 1 && b <= kLayers) << b;
  }
}

TEST(Gpt2, Bf16HalvesValuesButNotStatisticsAndLogits) {
  const Gpt2 wide = make(DType::f32), narrow = make(DType::bf16);
  ASSERT_EQ(wide.values().size(), narrow.values().size());
  for (size_t v = 0; v < wide.values().size(); ++v) {
    const ValueSpec& value = wide.values()[v];
    const bool kept = value.name.ends_with("stats") || value.name.ends_with("lse") ||
                      value.name == "tokens" || value.name == "targets" || value.name == "logits";
    EXPECT_EQ(narrow.values()[v].bytes, kept ? value.bytes : value.bytes / 2) << value.name;
  }
}

}  // namespace
}  // namespace strata
