// Whether two programs do the same in the same memory.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "offload/program.hpp"

namespace strata {

inline void expect_same_program(const Program& a, const Program& b) {
  EXPECT_EQ(a.non_model_bytes(), b.non_model_bytes());
  EXPECT_EQ(a.value_peak_bytes(), b.value_peak_bytes());
  EXPECT_EQ(a.trains(), b.trains());
  ASSERT_EQ(a.calls().size(), b.calls().size());
  for (size_t c = 0; c < a.calls().size(); ++c) {
    const BlockCall &x = a.calls()[c], &y = b.calls()[c];
    EXPECT_TRUE(x.kind == y.kind && x.block == y.block && x.micro_batch == y.micro_batch &&
                x.first_op == y.first_op && x.end_op == y.end_op)
        << "call " << c;
  }
  ASSERT_EQ(a.ops().size(), b.ops().size());
  const auto same = [](auto x, auto y, auto equal) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  };
  for (size_t i = 0; i < a.ops().size(); ++i) {
    const ProgramOp &x = a.ops()[i], &y = b.ops()[i];
    EXPECT_STREQ(x.name, y.name);
    EXPECT_TRUE(x.call == y.call && x.micro_batch == y.micro_batch && x.skip == y.skip &&
                x.flops == y.flops && x.bytes == y.bytes && x.seconds == y.seconds &&
                x.workspace_offset == y.workspace_offset && x.staging_offset == y.staging_offset)
        << "op " << i;
    EXPECT_TRUE(same(x.uses, y.uses,
                     [](const ObjUse& u, const ObjUse& v) {
                       return u.object == v.object && u.access == v.access;
                     }))
        << "uses of op " << i;
    EXPECT_TRUE(same(x.grads, y.grads,
                     [](const GradTarget& g, const GradTarget& h) {
                       return g.param == h.param && g.first == h.first && g.direct == h.direct &&
                              g.sparse == h.sparse && g.staging_offset == h.staging_offset;
                     }))
        << "gradients of op " << i;
    EXPECT_TRUE(same(x.values, y.values,
                     [](const ValueRef& v, const ValueRef& w) {
                       return v.value == w.value && v.offset == w.offset;
                     }))
        << "values of op " << i;
    EXPECT_TRUE(same(x.completes, y.completes, [](ChunkId c, ChunkId d) { return c == d; }))
        << "completed by op " << i;
  }
}

}  // namespace strata
