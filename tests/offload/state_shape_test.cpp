#include "offload/state_shape.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr auto kNothing = [](OpScope&) {};

/// A trained tensor, one that spans chunks, an idle one beside it, and a frozen one.
struct Case {
  Case(DType dtype, uint32_t accum, const OptimizerConfig& optimizer = {})
      : params({{"a", {1000}, dtype, 0, true, true, {}},
                {"idle", {200}, dtype, 0, true, true, {}},
                {"b", {700}, dtype, 0, true, true, {}},
                {"big", {5000}, dtype, 0, true, true, {}},
                {"frozen", {64}, dtype, 0, false, true, {}}}),
        layout(ChunkLayout::build(params, {2048, 1})),
        train(Program::lower(trace(), layout, {accum, {}})),
        shape(layout, train, optimizer) {}

  static Trace trace() {
    Tracer t(1, {});
    t.begin(CallKind::backward, 0);
    t.op({"all"}, {reads(4), grad_of(0), grad_of(2), grad_of(3)}, {}, {}, kNothing);
    return t.take();
  }

  std::vector<uint32_t> units(ChunkId c) const {
    std::vector<uint32_t> out;
    for (size_t p = 0; p < kPlanes; ++p) out.push_back(shape.units({c, static_cast<Plane>(p)}));
    return out;
  }

  std::vector<ParamSpec> params;
  ChunkLayout layout;
  Program train;
  StateShape shape;
};

using Units = std::vector<uint32_t>;  // weight, grad, remainder, m, v

TEST(StateShape, UnitsOfPlanesInFp32) {
  for (const uint32_t accum : {1u, 3u}) {
    const Case s(DType::f32, accum);
    EXPECT_EQ(s.shape.unit_bytes(), 2048u * 4);
    EXPECT_EQ(s.shape.grad_type(), DType::f32);
    EXPECT_EQ(s.units(0), (Units{1, 1, 0, 1, 1}));
    EXPECT_EQ(s.shape.chunk_units(0), 4u);
  }
}

TEST(StateShape, UnitsOfPlanesInBf16) {
  const Case one(DType::bf16, 1);
  EXPECT_EQ(one.shape.unit_bytes(), 2048u * 2);
  EXPECT_EQ(one.shape.grad_type(), DType::bf16);
  EXPECT_EQ(one.units(0), (Units{1, 1, 1, 2, 2}));
  EXPECT_EQ(one.shape.chunk_units(0), 7u);

  const Case accumulating(DType::bf16, 3);
  EXPECT_EQ(accumulating.shape.grad_type(), DType::f32);
  EXPECT_EQ(accumulating.units(0), (Units{1, 2, 1, 2, 2}));
}

TEST(StateShape, OptimizerDecidesItsRecords) {
  OptimizerConfig sgd;
  sgd.kind = OptimizerKind::sgd;
  EXPECT_EQ(Case(DType::bf16, 1, sgd).units(0), (Units{1, 1, 1, 0, 0}));
  sgd.momentum = 0.9;
  EXPECT_EQ(Case(DType::bf16, 1, sgd).units(0), (Units{1, 1, 1, 2, 0}));
}

TEST(StateShape, WithoutGradientsThereAreWeightsAlone) {
  const Case s(DType::bf16, 1);
  const ChunkId frozen = s.layout.of_param(4).front().chunk;
  EXPECT_FALSE(s.shape.trained(frozen));
  EXPECT_EQ(s.units(frozen), (Units{1, 0, 0, 0, 0}));
  EXPECT_TRUE(s.shape.trained(0));
}

TEST(StateShape, SlicesCoverWhatIsTrainedAndStayInsideUnits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Case s(dtype, 1);
    std::vector<uint64_t> covered(s.params.size(), 0);
    for (ChunkId c = 0; c < s.layout.chunks(); ++c) {
      uint64_t end = 0;
      for (const ChunkSlice& slice : s.shape.slices(c)) {
        EXPECT_GE(slice.chunk_offset, end) << "in order, without overlap";
        end = slice.chunk_offset + slice.elems;
        EXPECT_EQ(slice.chunk_offset % 64, 0u);
        EXPECT_EQ(slice.param_offset, covered[slice.param]);
        covered[slice.param] += slice.elems;
        // The widest plane is fp32.
        const uint64_t unit = s.shape.unit_bytes() / 4;
        EXPECT_EQ(slice.chunk_offset / unit, (end - 1) / unit);
      }
    }
    EXPECT_EQ(covered, (std::vector<uint64_t>{1000, 0, 700, 5000, 0}));
  }
}

TEST(StateShape, RefusesMixedDtypes) {
  std::vector<ParamSpec> params = {{"a", {64}, DType::f32, 0, true, true, {}},
                                   {"b", {64}, DType::bf16, 0, true, true, {}}};
  const ChunkLayout layout = ChunkLayout::build(params, {2048, 1});
  Tracer t(1, {});
  t.begin(CallKind::backward, 0);
  t.op({"op"}, {grad_of(0)}, {}, {}, kNothing);
  const Program train = Program::lower(t.take(), layout, {1, {}});
  EXPECT_THROW(StateShape(layout, train, {}), ConfigError);
}

}  // namespace
}  // namespace strata
