// Gradients in a lowered program: who writes where, when a chunk's gradient is final, next uses.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "offload/program.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata {
namespace {

constexpr auto kNothing = [](OpScope&) {};

/// Two tensors in one chunk, made by one op; a tied one, made by a dense and a sparse op.
struct Small {
  explicit Small(DType dtype, bool sparse_first = false) {
    params = {{"a", {64}, dtype, 0, true, true, {}},
              {"b", {100}, dtype, 0, true, true, {}},
              {"emb", {32, 64}, dtype, 0, true, true, {}},
              {"idle", {64}, dtype, 0, true, true, {}},
              {"head", {32, 64}, dtype, 0, true, true, 2}};
    Tracer t(2, {});
    t.begin(CallKind::backward, 1);
    if (!sparse_first) t.op({"head"}, {grad_of(4)}, {}, {}, kNothing);
    t.op({"both"}, {grad_of(0), grad_of(1)}, {}, {}, kNothing);
    t.begin(CallKind::backward, 0);
    t.op({"rows"}, {adds_to_grad_of(2)}, {}, {}, kNothing);
    if (sparse_first) t.op({"head"}, {grad_of(4)}, {}, {}, kNothing);
    trace = t.take();
  }

  Program lower(uint32_t accum) const {
    return Program::lower(trace, ChunkLayout::build(params, {2048, 1}), {accum, {}});
  }

  std::vector<ParamSpec> params;
  Trace trace;
};

const ProgramOp& op_of(const Program& p, const std::string& name, uint32_t micro) {
  for (const ProgramOp& op : p.ops()) {
    if (op.name == name && op.micro_batch == micro) return op;
  }
  throw std::logic_error("no op " + name);
}

TEST(ProgramGradients, FirstDenseWritesDirectlyWithoutAccumulation) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Program p = Small(dtype).lower(1);
    EXPECT_EQ(p.accumulator_type(dtype), dtype);
    const ProgramOp& both = op_of(p, "both", 0);
    ASSERT_EQ(both.grads.size(), 2u);
    for (const GradTarget& g : both.grads) EXPECT_TRUE(g.first && g.direct && !g.sparse);
    const ProgramOp& head = op_of(p, "head", 0);
    EXPECT_EQ(head.grads[0].param, 2u) << "the tied name writes the storage's gradient";
    EXPECT_TRUE(head.grads[0].first && head.grads[0].direct);
    const ProgramOp& rows = op_of(p, "rows", 0);
    EXPECT_TRUE(rows.grads[0].sparse && !rows.grads[0].first && !rows.grads[0].direct);
    EXPECT_EQ(p.non_model_bytes(), 0u) << "no staging";
  }
}

TEST(ProgramGradients, AccumulationInFp32WritesDirectlyOnlyTheFirstTime) {
  const Program p = Small(DType::f32).lower(3);
  for (uint32_t m = 0; m < 3; ++m) {
    const ProgramOp& both = op_of(p, "both", m);
    for (const GradTarget& g : both.grads) {
      EXPECT_EQ(g.first, m == 0);
      EXPECT_EQ(g.direct, m == 0);
    }
    // 64 floats take 256 bytes; the next tensor's staging follows, aligned.
    EXPECT_EQ(both.grads[0].staging_offset, 0u);
    EXPECT_EQ(both.grads[1].staging_offset, m == 0 ? 0u : 256u);
  }
  EXPECT_EQ(p.non_model_bytes(), 2048u * 4) << "the largest op's staging";
}

TEST(ProgramGradients, AccumulationInBf16AlwaysStages) {
  const Program p = Small(DType::bf16).lower(3);
  EXPECT_EQ(p.accumulator_type(DType::bf16), DType::f32);
  for (uint32_t m = 0; m < 3; ++m) {
    const ProgramOp& both = op_of(p, "both", m);
    for (const GradTarget& g : both.grads) {
      EXPECT_EQ(g.first, m == 0);
      EXPECT_FALSE(g.direct || g.sparse);
    }
    EXPECT_EQ(both.grads[1].staging_offset, 128u);
  }
  EXPECT_EQ(p.non_model_bytes(), 2048u * 2);
}

TEST(ProgramGradients, DenseAfterSparseIsAdded) {
  const Program p = Small(DType::f32, true).lower(1);
  const GradTarget rows = op_of(p, "rows", 0).grads[0], head = op_of(p, "head", 0).grads[0];
  EXPECT_TRUE(rows.first && rows.sparse);
  EXPECT_TRUE(!head.first && !head.direct && !head.sparse);
}

TEST(ProgramGradients, TiedNamesShareStorageAndGradient) {
  const Small small(DType::f32);
  const ChunkLayout layout = ChunkLayout::build(small.params, {2048, 1});
  const Program p = small.lower(1);
  const auto chunk_of = [&](const char* op) { return op_of(p, op, 0).uses[0].object.chunk; };
  EXPECT_EQ(chunk_of("head"), chunk_of("rows"));
  EXPECT_EQ(chunk_of("head"), layout.of_param(2).front().chunk);
  EXPECT_TRUE(p.has_gradient(2) && p.has_gradient(4));
  EXPECT_FALSE(p.has_gradient(3));
}

TEST(ProgramGradients, UsesAreDistinctObjects) {
  const Program p = Small(DType::f32).lower(1);
  EXPECT_EQ(op_of(p, "both", 0).uses.size(), 1u) << "two tensors of one chunk are one object";
}

void expect_completes_once(const Program& p, const ChunkLayout& layout) {
  std::vector<OpIndex> last(layout.chunks(), UINT32_MAX), complete = last;
  for (OpIndex i = 0; i < p.ops().size(); ++i) {
    for (const ObjUse& u : p.ops()[i].uses) {
      if (u.object.plane == Plane::grad) last[u.object.chunk] = i;
    }
    for (const ChunkId c : p.ops()[i].completes) {
      EXPECT_EQ(complete[c], UINT32_MAX) << "chunk " << c << " is complete twice";
      complete[c] = i;
    }
  }
  EXPECT_EQ(complete, last);
}

void expect_next_uses(const Program& p, const ChunkLayout& layout) {
  const auto ops = static_cast<OpIndex>(p.ops().size());
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    for (size_t plane = 0; plane < kPlanes; ++plane) {
      const ObjId id{c, static_cast<Plane>(plane)};
      OpIndex next = ops;
      EXPECT_EQ(p.next_use(id, ops), ops);
      for (OpIndex i = ops; i-- > 0;) {
        for (const ObjUse& u : p.ops()[i].uses) {
          if (u.object == id) next = i;
        }
        ASSERT_EQ(p.next_use(id, i), next) << "chunk " << c << " plane " << plane << " op " << i;
      }
    }
  }
}

TEST(ProgramGradients, CompletesOnceAndNextUsesAreRight) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 20; ++run) {
    const auto layers = static_cast<uint32_t>(1 + random() % 4);
    toy::Model model({layers, 40, static_cast<uint32_t>(40 + random() % 100), 2, DType::f32});
    const ChunkLayout layout = ChunkLayout::build(model.params(), {2048 * (1 + random() % 3), 1});
    std::vector<bool> recompute(model.blocks());
    for (size_t b = 0; b < recompute.size(); ++b) recompute[b] = random() % 2 == 0;
    const Schedule schedule{static_cast<uint32_t>(1 + random() % 3), recompute};
    const Program p = Program::lower(model.trace(true), layout, schedule);
    expect_completes_once(p, layout);
    expect_next_uses(p, layout);
    const Program eval = Program::lower(model.trace(false), layout, {1, {}});
    EXPECT_FALSE(eval.trains());
    expect_completes_once(eval, layout);
    expect_next_uses(eval, layout);
  }
}

TEST(ProgramGradients, MovedProgramsKeepTheirOps) {
  Program a = Small(DType::f32).lower(2);
  const std::string name = a.ops()[0].name;
  const size_t uses = a.ops()[0].uses.size();
  const Program b = std::move(a);
  EXPECT_EQ(b.ops()[0].name, name);
  EXPECT_EQ(b.ops()[0].uses.size(), uses);
}

}  // namespace
}  // namespace strata
