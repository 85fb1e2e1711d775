// Traces of GPT-2 as text.
#include "offload/trace_file.hpp"

#include <gtest/gtest.h>

#include "models/registry.hpp"
#include "tests/offload/same_program.hpp"

namespace strata {
namespace {

struct Case {
  const char* model;
  BatchShape shape;
  DType dtype;
  uint32_t threads;
};

TEST(TraceFile, Gpt2ComesBackAndLowersToTheSame) {
  for (const Case& c :
       {Case{"gpt2:L2,D32,H2,V97,T16", {2, 12, 1}, DType::f32, 1},
        Case{"gpt2:L2,D32,H2,V97,T16", {2, 12, 4}, DType::bf16, 3},
        Case{"gpt2:L5,D64,H4,V300,T64", {1, 64, 1}, DType::f32, 2},
        Case{"gpt2", {4, 256, 1}, DType::bf16, 2}, Case{"gpt2-xl", {1, 1024, 1}, DType::f32, 2}}) {
    SCOPED_TRACE(c.model);
    const auto model = make_model(c.model, {c.shape, c.dtype, c.threads});
    for (const Mode mode : {Mode::train, Mode::eval}) {
      const TraceFile file{c.model, c.shape.rows(), model->params(), trace_model(*model, mode)};
      std::vector<uint32_t> recomputable;
      for (uint32_t b = 0; mode == Mode::train && b < model->blocks(); ++b) {
        if (model->recomputable(b)) recomputable.push_back(b);
      }
      EXPECT_EQ(file.trace.recomputable, recomputable);
      const TraceFile back = read_trace(write_trace(file), "here");
      EXPECT_EQ(back, file);
      const uint64_t chunk = ChunkLayout::search_chunk_elems(file.params, 1);
      const auto layout = ChunkLayout::build(file.params, {chunk, 1});
      const auto again = ChunkLayout::build(back.params, {chunk, 1});
      for (const bool recompute : {false, true}) {
        const Schedule schedule{2, std::vector<bool>(file.trace.blocks, recompute)};
        expect_same_program(Program::lower(file.trace, layout, schedule),
                            Program::lower(back.trace, again, schedule));
      }
    }
  }
}

}  // namespace
}  // namespace strata
