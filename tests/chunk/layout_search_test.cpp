#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "chunk/layout.hpp"

namespace strata {
namespace {

using Params = std::vector<ParamSpec>;

/// The tensors of a GPT-2: embeddings, then each block's in the order of computation.
Params gpt2(int64_t layers, int64_t d, int64_t vocabulary, int64_t positions) {
  Params params;
  const auto add = [&](std::string name, std::vector<int64_t> shape) {
    ParamSpec p;
    p.name = std::move(name);
    p.shape = std::move(shape);
    params.push_back(std::move(p));
  };
  const auto pair = [&](const std::string& name, int64_t rows, int64_t columns) {
    add(name + ".weight", {rows, columns});
    add(name + ".bias", {columns});
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", {d});
    add(name + ".bias", {d});
  };
  add("wte", {vocabulary, d});
  add("wpe", {positions, d});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string h = "h." + std::to_string(l);
    norm(h + ".ln_1");
    pair(h + ".attn.c_attn", d, 3 * d);
    pair(h + ".attn.c_proj", d, d);
    norm(h + ".ln_2");
    pair(h + ".mlp.c_fc", d, 4 * d);
    pair(h + ".mlp.c_proj", 4 * d, d);
  }
  norm("ln_f");
  add("head", {vocabulary, d});
  params.back().tied_to = 0;
  return params;
}

struct Shape {
  const char* name;
  int64_t layers, d, vocabulary, positions;
  double most_padding;
};

TEST(LayoutSearch, PadsGpt2Little) {
  for (const Shape& s :
       {Shape{"gpt2", 12, 768, 50257, 1024, 0.015},
        Shape{"gpt2-medium", 24, 1024, 50257, 1024, 0.015},
        Shape{"gpt2-large", 36, 1280, 50257, 1024, 0.01},
        Shape{"gpt2-xl", 48, 1600, 50257, 1024, 0.01}, Shape{"demo", 6, 384, 256, 128, 0.06},
        Shape{"gpt-6.7b", 32, 4096, 50257, 2048, 0.02},
        Shape{"one block", 1, 768, 50257, 1024, 0.02}}) {
    const Params params = gpt2(s.layers, s.d, s.vocabulary, s.positions);
    for (const uint32_t ranks : {1u, 2u, 4u}) {
      const uint64_t elems = ChunkLayout::search_chunk_elems(params, ranks);
      ASSERT_EQ(elems % (ChunkLayout::kQuantum * ranks), 0u);
      const auto largest = static_cast<uint64_t>(4 * s.d * s.d);
      EXPECT_GE(elems, largest) << s.name << ": the matrices of a block do not span";
      EXPECT_LE(elems, largest + largest / 4 + ChunkLayout::kQuantum * ranks) << s.name;
      const ChunkLayout l = ChunkLayout::build(params, {elems, ranks});
      EXPECT_LT(l.padding(), s.most_padding) << s.name << " over " << ranks;
    }
  }
}

TEST(LayoutSearch, NoOtherSizeItMayTakePadsLess) {
  const Params params = gpt2(3, 64, 3000, 32);
  const uint64_t best = ChunkLayout::search_chunk_elems(params, 1);
  const double least = ChunkLayout::build(params, {best, 1}).padding();
  const uint64_t largest = 4 * 64 * 64;
  for (uint64_t c = largest; c <= largest + largest / 4; c += ChunkLayout::kQuantum) {
    EXPECT_GE(ChunkLayout::build(params, {c, 1}).padding(), least) << c;
  }
}

TEST(LayoutSearch, WorksWithoutMatrices) {
  Params params(3);
  for (ParamSpec& p : params) p.shape = {1000};
  EXPECT_EQ(ChunkLayout::search_chunk_elems(params, 1), 4096u);
  EXPECT_EQ(ChunkLayout::search_chunk_elems(params, 3), 6144u);
  EXPECT_EQ(ChunkLayout::search_chunk_elems({}, 2), 4096u);
}

TEST(LayoutSearch, NeverGivesMoreChunksThanThereMayBe) {
  Params params(3);
  params[0].shape = {8, 8};
  params[1].shape = {int64_t{1} << 47};
  params[2].shape = {int64_t{1} << 46, 2};
  for (size_t n = 1; n <= params.size(); ++n) {
    const std::span some(params.data(), n);
    EXPECT_LE(ChunkLayout::build(some, {ChunkLayout::search_chunk_elems(some, 1), 1}).chunks(),
              1u << 17);
  }
}

TEST(LayoutSearch, IsAFunctionOfShapesAlone) {
  const Params params = gpt2(2, 64, 300, 32);
  Params renamed = params;
  for (ParamSpec& p : renamed) p.name = "x";
  EXPECT_EQ(ChunkLayout::search_chunk_elems(params, 1),
            ChunkLayout::search_chunk_elems(renamed, 1));
}

TEST(LayoutSearch, AGivenChunkSizeIsRoundedUp) {
  Params params = gpt2(2, 64, 256, 64);
  constexpr uint64_t q = ChunkLayout::kQuantum;
  EXPECT_EQ(ChunkLayout::chunk_elems_of(params, 0), ChunkLayout::search_chunk_elems(params, 1));
  EXPECT_EQ(ChunkLayout::chunk_elems_of(params, 1), q);
  EXPECT_EQ(ChunkLayout::chunk_elems_of(params, 4 * q), q);
  EXPECT_EQ(ChunkLayout::chunk_elems_of(params, 4 * q + 4), 2 * q);
  for (ParamSpec& p : params) p.dtype = DType::bf16;
  EXPECT_EQ(ChunkLayout::chunk_elems_of(params, 4 * q), 2 * q);
}

}  // namespace
}  // namespace strata
