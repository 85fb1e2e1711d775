#include "chunk/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

using Params = std::vector<ParamSpec>;

ParamSpec tensor(std::string name, std::vector<int64_t> shape) {
  ParamSpec p;
  p.name = std::move(name);
  p.shape = std::move(shape);
  return p;
}

/// Vectors, matrices and embeddings of several classes; some tied to earlier ones.
Params random_params(std::mt19937_64& draw, uint64_t chunk_elems) {
  Params params;
  const size_t n = 1 + draw() % 40;
  for (size_t i = 0; i < n; ++i) {
    ParamSpec p = tensor("t" + std::to_string(i), {});
    switch (draw() % 5) {
      case 0: p.shape = {static_cast<int64_t>(1 + draw() % 300)}; break;
      case 1: p.shape = {static_cast<int64_t>(1 + draw() % chunk_elems)}; break;
      case 2:
        p.shape = {static_cast<int64_t>(chunk_elems), static_cast<int64_t>(1 + draw() % 3)};
        break;
      case 3: p.shape = {3, static_cast<int64_t>(1 + draw() % chunk_elems)}; break;
      default: break;  // a scalar
    }
    p.group = static_cast<GroupId>(draw() % 8 == 0);
    p.dtype = draw() % 8 == 0 ? DType::bf16 : DType::f32;
    p.trainable = draw() % 8 != 0;
    if (i > 0 && draw() % 6 == 0) {
      const auto to = static_cast<ParamId>(draw() % i);
      if (!params[to].tied_to) {
        const std::string name = p.name;
        p = params[to];
        p.name = name;
        p.tied_to = to;
      }
    }
    params.push_back(p);
  }
  return params;
}

ChunkClass class_of(const ParamSpec& p) { return {p.group, p.dtype, p.trainable}; }

/// Every element of a tensor once, in order; a tensor longer than a chunk alone spans, from the
/// start of a fresh chunk over consecutive ones.
void check_params(const ChunkLayout& l, const Params& params) {
  for (ParamId i = 0; i < params.size(); ++i) {
    const auto pieces = l.of_param(i);
    ASSERT_EQ(l.storage_of(i), params[i].tied_to.value_or(i));
    if (params[i].tied_to) {
      ASSERT_EQ(pieces.data(), l.of_param(*params[i].tied_to).data()) << "tied storage is shared";
      continue;
    }
    ASSERT_FALSE(pieces.empty());
    const bool spans = params[i].elems() > l.chunk_elems();
    ASSERT_EQ(pieces.size(), (params[i].elems() + l.chunk_elems() - 1) / l.chunk_elems());
    uint64_t at = 0;
    for (size_t k = 0; k < pieces.size(); ++k) {
      ASSERT_EQ(pieces[k].param, i);
      ASSERT_EQ(pieces[k].param_offset, at);
      ASSERT_EQ(pieces[k].chunk, pieces[0].chunk + k);
      ASSERT_EQ(l.class_of(pieces[k].chunk), class_of(params[i]));
      if (spans) {
        ASSERT_EQ(pieces[k].chunk_offset, 0u);
        ASSERT_TRUE(l.in_span(pieces[k].chunk));
      }
      at += pieces[k].elems;
    }
    ASSERT_EQ(at, params[i].elems());
  }
}

/// Pieces within bounds, aligned, in ascending order without overlap; parameters keep their order;
/// nothing but tensors longer than a chunk makes a span.
void check_chunks(const ChunkLayout& l, const Params& params) {
  size_t pieces = 0;
  std::map<std::tuple<GroupId, DType, bool>, std::pair<ParamId, uint64_t>> last;
  for (ChunkId c = 0; c < l.chunks(); ++c) {
    ASSERT_FALSE(l.in_chunk(c).empty()) << "an empty chunk";
    uint64_t end = 0;
    bool spans = false;
    const ChunkClass k = l.class_of(c);
    auto& before = last[{k.group, k.dtype, k.trainable}];
    for (const Piece& p : l.in_chunk(c)) {
      ++pieces;
      ASSERT_EQ(p.chunk, c);
      ASSERT_GT(p.elems, 0u);
      ASSERT_EQ(p.chunk_offset % ChunkLayout::kAlignElems, 0u);
      ASSERT_EQ(p.param_offset % ChunkLayout::kAlignElems, 0u);
      ASSERT_GE(p.chunk_offset, end);
      ASSERT_LT(p.chunk_offset, end + ChunkLayout::kAlignElems) << "a gap";
      end = p.chunk_offset + p.elems;
      ASSERT_LE(end, l.chunk_elems());
      const std::pair now{p.param, p.param_offset + 1};
      ASSERT_LT(before, now) << "tensors of a class keep their order";
      before = now;
      spans |= params[p.param].elems() > l.chunk_elems();
    }
    ASSERT_EQ(l.in_span(c), spans);
  }
  size_t by_param = 0;
  for (ParamId i = 0; i < params.size(); ++i) {
    if (!params[i].tied_to) by_param += l.of_param(i).size();
  }
  ASSERT_EQ(pieces, by_param);
}

/// Next-fit: a chunk of a class was left only because the next tensor of the class did not fit.
void check_no_chunk_left_early(const ChunkLayout& l, const Params& params) {
  std::map<std::tuple<GroupId, DType, bool>, ChunkId> open;
  for (ChunkId c = 0; c < l.chunks(); ++c) {
    const ChunkClass k = l.class_of(c);
    const auto [it, first] = open.try_emplace({k.group, k.dtype, k.trainable}, c);
    if (first) continue;
    const Piece& end = l.in_chunk(it->second).back();
    const uint64_t left = l.chunk_elems() - (end.chunk_offset + end.elems);
    const Piece& next = l.in_chunk(c).front();
    if (next.param_offset == 0) {
      ASSERT_GT(params[next.param].elems() + ChunkLayout::kAlignElems, left);
    }
    it->second = c;
  }
}

TEST(ChunkLayout, RandomParametersKeepEveryRule) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 draw(seed);
    const auto ranks = static_cast<uint32_t>(1 + draw() % 4);
    const uint64_t elems = ChunkLayout::kQuantum * ranks * (1 + draw() % 3);
    const Params params = random_params(draw, elems);
    const ChunkLayout l = ChunkLayout::build(params, {elems, ranks});
    ASSERT_EQ(l.params().size(), params.size());
    ASSERT_EQ(l.chunk_elems(), elems);
    ASSERT_EQ(l.ranks(), ranks);
    check_params(l, params);
    check_chunks(l, params);
    check_no_chunk_left_early(l, params);
    if (HasFatalFailure()) return;
    EXPECT_EQ(l.hash(), ChunkLayout::build(params, {elems, ranks}).hash());
  }
}

TEST(ChunkLayout, ShardsCutEveryChunkIntoEqualSlices) {
  for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
    const uint64_t elems = 2 * ChunkLayout::kQuantum * ranks;
    const ChunkLayout l = ChunkLayout::build(Params{tensor("w", {100})}, {elems, ranks});
    uint64_t at = 0;
    for (uint32_t r = 0; r < ranks; ++r) {
      const auto [begin, end] = l.shard(r);
      EXPECT_EQ(begin, at);
      EXPECT_EQ((end - begin) % ChunkLayout::kQuantum, 0u) << "4096 bytes of bf16 each";
      EXPECT_EQ(end - begin, elems / ranks);
      at = end;
    }
    EXPECT_EQ(at, elems);
  }
}

TEST(ChunkLayout, SmallTensorsMayFollowASpan) {
  const Params params = {tensor("a", {10}), tensor("wide", {2, 2048}), tensor("b", {5}),
                         tensor("c", {2048 - 64})};
  const ChunkLayout l = ChunkLayout::build(params, {2048, 1});
  EXPECT_EQ(l.of_param(1).front().chunk, 1u) << "a span starts a fresh chunk";
  EXPECT_EQ(l.of_param(2).front().chunk, 3u) << "two full chunks have no room";
  EXPECT_EQ(l.of_param(3).front().chunk, 3u);
  EXPECT_EQ(l.of_param(3).front().chunk_offset, 64u);
  EXPECT_FALSE(l.in_span(0));
  EXPECT_TRUE(l.in_span(1));
  EXPECT_TRUE(l.in_span(2));
  EXPECT_FALSE(l.in_span(3));
  EXPECT_EQ(l.chunks(), 4u);
  EXPECT_DOUBLE_EQ(l.padding(), 4 * 2048.0 / (10 + 4096 + 5 + 2048 - 64) - 1);
}

TEST(ChunkLayout, NothingGivesNothing) {
  const ChunkLayout l = ChunkLayout::build({}, {2048, 1});
  EXPECT_EQ(l.chunks(), 0u);
  EXPECT_EQ(l.padding(), 0);
}

TEST(ChunkLayout, TheHashTellsLayoutsApart) {
  const Params base = {tensor("a", {100, 10}), tensor("b", {10}), tensor("c", {3000})};
  std::set<uint64_t> seen;
  const auto add = [&](const Params& p, const LayoutOptions& o) {
    EXPECT_TRUE(seen.insert(ChunkLayout::build(p, o).hash()).second);
  };
  add(base, {2048, 1});
  add(base, {4096, 1});
  add(base, {4096, 2});
  for (size_t i = 0; i < base.size(); ++i) {
    Params changed = base;
    changed[i].shape[0] += 64;
    add(changed, {2048, 1});
    Params frozen = base;
    frozen[i].trainable = false;
    add(frozen, {2048, 1});
  }
  Params all = base;
  for (ParamSpec& p : all) p.dtype = DType::bf16;
  add(all, {2048, 1});
  for (ParamSpec& p : all) p.trainable = false;
  add(all, {2048, 1});
}

/// The message of the ConfigError that building gives.
std::string refusal(const Params& params, const LayoutOptions& o) {
  try {
    ChunkLayout::build(params, o);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(ChunkLayout, RefusesBadChunkSizes) {
  const Params params = {tensor("w", {10})};
  EXPECT_NE(refusal(params, {0, 1}).find("round it up to 2048"), std::string::npos);
  EXPECT_NE(refusal(params, {2049, 1}).find("round it up to 4096"), std::string::npos);
  EXPECT_NE(refusal(params, {2048, 3}).find("round it up to 6144"), std::string::npos);
  EXPECT_NE(refusal(params, {2048, 0}).find("at least one rank"), std::string::npos);
  EXPECT_THROW(ChunkLayout::search_chunk_elems(params, 0), ConfigError);
}

TEST(ChunkLayout, RefusesMoreChunksThanAnyPlanHas) {
  const int64_t most = static_cast<int64_t>(ChunkLayout::kMostChunks);
  EXPECT_EQ(ChunkLayout::build(Params{tensor("w", {most, 2048})}, {2048, 1}).chunks(), most);
  EXPECT_THROW(ChunkLayout::build(Params{tensor("w", {most, 2048}), tensor("b", {1})}, {2048, 1}),
               ConfigError);
}

TEST(ChunkLayout, RefusesBadShapes) {
  constexpr int64_t kHuge = int64_t{1} << 32;
  const std::vector<std::vector<int64_t>> shapes = {
      {0}, {-1}, {5, 0}, {-2, -3}, {kHuge, kHuge}, {kHuge, kHuge, 0}, {INT64_MAX}, {INT64_MIN}};
  for (const auto& shape : shapes) {
    const Params params = {tensor("fine", {3}), tensor("h.3.bad", shape)};
    EXPECT_NE(refusal(params, {2048, 1}).find("h.3.bad"), std::string::npos) << shape[0];
    EXPECT_THROW(ChunkLayout::search_chunk_elems(params, 1), ConfigError);
  }
}

TEST(ChunkLayout, RefusesTiesToOtherStorage) {
  const auto tied = [](auto&& change, ParamId to = 0) {
    Params params = {tensor("wte", {6, 10}), tensor("head", {6, 10})};
    params[1].tied_to = to;
    change(params);
    return refusal(params, {2048, 1});
  };
  EXPECT_EQ(tied([](Params&) {}), "nothing was thrown");
  EXPECT_EQ(tied([](Params& p) { p[1].shape = {10, 6}; }), "nothing was thrown") << "a view";
  for (const std::string& message : {
           tied([](Params& p) {
             p[1].shape = {6, 11};
           }),
           tied([](Params& p) { p[1].dtype = DType::bf16; }),
           tied([](Params& p) { p[1].group = 1; }),
           tied([](Params& p) { p[1].trainable = false; }),
           tied([](Params&) {}, 1),
           tied([](Params&) {}, 7),
       }) {
    EXPECT_NE(message.find("head is tied"), std::string::npos) << message;
  }
  Params later = {tensor("a", {4}), tensor("b", {4})};
  later[0].tied_to = 1;
  EXPECT_NE(refusal(later, {2048, 1}).find("a is tied"), std::string::npos);
  Params chain = {tensor("a", {4}), tensor("b", {4}), tensor("c", {4})};
  chain[1].tied_to = 0;
  chain[2].tied_to = 1;
  EXPECT_NE(refusal(chain, {2048, 1}).find("c is tied"), std::string::npos);
}

}  // namespace
}  // namespace strata
