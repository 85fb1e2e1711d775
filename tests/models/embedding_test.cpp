#include "models/host/embedding.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"
#include "tests/models/kernel_check.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata {
namespace {

using testing::Buffer;
using testing::relative_error;
using testing::Tensor;
using testing::tolerance;

constexpr size_t kBatch = 3, kSeq = 14, kPositions = 20, kWidth = 37, kVocabulary = 50;
constexpr size_t kTokens = kBatch * kSeq;

/// Some rows often, some once, some never.
std::vector<int32_t> make_tokens() {
  std::vector<int32_t> tokens(kTokens);
  for (size_t i = 0; i < kTokens; ++i) {
    tokens[i] = static_cast<int32_t>(i % 3 == 0 ? 7 : i * i % kVocabulary);
  }
  tokens[5] = kVocabulary - 1;
  return tokens;
}

struct Outputs {
  Tensor x, dpositions, accumulator;
  std::string bytes() const { return x.bytes() + dpositions.bytes() + accumulator.bytes(); }
};

/// The accumulator in memory as a run has it: cut at `cuts`, the pieces not in order of address.
struct Pieces {
  std::vector<Tensor> parts;
  ScatteredTensor rows;

  Pieces(const Tensor& whole, const std::vector<size_t>& cuts) {
    rows.count = static_cast<uint32_t>(cuts.size() - 1);
    for (size_t k = 0; k + 1 < cuts.size(); ++k) {
      Tensor& part = parts.emplace_back(whole.type(), cuts[k + 1] - cuts[k]);
      for (size_t i = 0; i < part.size(); ++i) {
        part.set(i, static_cast<float>(whole.at(cuts[k] + i)));
      }
      rows.pieces[k] = {part.data(), cuts[k], part.size()};
    }
  }
  Tensor joined() const {
    Tensor whole(parts[0].type(), kVocabulary * kWidth);
    size_t at = 0;
    for (const Tensor& part : parts) {
      EXPECT_TRUE(part.intact());
      for (size_t i = 0; i < part.size(); ++i) whole.set(at++, static_cast<float>(part.at(i)));
    }
    return whole;
  }
};

const std::vector<size_t> kOnePiece = {0, kVocabulary* kWidth};
/// Inside rows, and two cuts inside row 7.
const std::vector<size_t> kFourPieces = {0, 7 * kWidth + 5, 7 * kWidth + 22, 30 * kWidth + 1,
                                         kVocabulary* kWidth};

Outputs compute(DType t, DType acc, uint32_t threads, const std::vector<size_t>& cuts) {
  ThreadPool pool(threads);
  const ThreadPool::Turn turn(pool);
  const std::vector<int32_t> tokens = make_tokens();
  const Tensor table = Tensor::random(t, kVocabulary * kWidth, 1);
  const Tensor positions = Tensor::random(t, kPositions * kWidth, 2);
  const Tensor dx = Tensor::random(t, kTokens * kWidth, 3);
  const Pieces pieces(Tensor::random(acc, kVocabulary * kWidth, 4), cuts);
  Outputs o{Tensor(t, kTokens * kWidth), Tensor(t, kPositions * kWidth), Tensor(acc, 0)};
  host::embedding_forward(pool, {.dtype = t,
                                 .x = o.x.data(),
                                 .tokens = tokens.data(),
                                 .token_table = table.data(),
                                 .position_table = positions.data(),
                                 .batch = kBatch,
                                 .seq = kSeq,
                                 .width = kWidth,
                                 .vocabulary = kVocabulary});
  host::position_gradient(pool,
                          {t, o.dpositions.data(), dx.data(), kBatch, kSeq, kPositions, kWidth});
  const Buffer scratch(host::lookup_gradient_scratch(kTokens, kVocabulary));
  host::lookup_gradient(pool, {.dtype = t,
                               .accumulator_dtype = acc,
                               .accumulator = pieces.rows,
                               .dx = dx.data(),
                               .tokens = tokens.data(),
                               .scratch = scratch.data(),
                               .count = kTokens,
                               .vocabulary = kVocabulary,
                               .width = kWidth});
  EXPECT_TRUE(o.x.intact() && o.dpositions.intact() && scratch.intact());
  o.accumulator = pieces.joined();
  return o;
}

void expect_reference(DType t, DType acc) {
  SCOPED_TRACE(std::string(name_of(t)) + " into " + name_of(acc));
  const std::vector<int32_t> tokens = make_tokens();
  const Tensor table = Tensor::random(t, kVocabulary * kWidth, 1);
  const Tensor positions = Tensor::random(t, kPositions * kWidth, 2);
  const Tensor dx = Tensor::random(t, kTokens * kWidth, 3);
  const Tensor before = Tensor::random(acc, kVocabulary * kWidth, 4);
  std::vector<double> x(kTokens * kWidth), dpositions(kPositions * kWidth);
  std::vector<double> dtable(kVocabulary * kWidth);
  std::vector<bool> occurs(kVocabulary);
  for (size_t i = 0; i < kTokens; ++i) {
    const auto token = static_cast<size_t>(tokens[i]);
    occurs[token] = true;
    for (size_t j = 0; j < kWidth; ++j) {
      x[i * kWidth + j] = table.at(token * kWidth + j) + positions.at(i % kSeq * kWidth + j);
      dpositions[i % kSeq * kWidth + j] += dx.at(i * kWidth + j);
      dtable[token * kWidth + j] += dx.at(i * kWidth + j);
    }
  }
  const Outputs got = compute(t, acc, 2, kFourPieces);
  EXPECT_LT(relative_error(got.x, x), tolerance(t));
  EXPECT_LT(relative_error(got.dpositions, dpositions), tolerance(t));
  for (size_t i = kSeq * kWidth; i < kPositions * kWidth; ++i) EXPECT_EQ(got.dpositions.at(i), 0);
  std::vector<double> after(dtable.size());
  for (size_t i = 0; i < after.size(); ++i) {
    after[i] = before.at(i) + dtable[i];
    if (!occurs[i / kWidth]) {
      EXPECT_EQ(got.accumulator.at(i), before.at(i));
    }
  }
  EXPECT_LT(relative_error(got.accumulator, after), std::max(tolerance(t), tolerance(acc)));
}

TEST(Embedding, MatchesReferenceInDouble) {
  expect_reference(DType::f32, DType::f32);
  expect_reference(DType::bf16, DType::f32);
  expect_reference(DType::bf16, DType::bf16);
}

TEST(Embedding, MatchesReferenceOnEveryTarget) {
  kernels::testing::for_each_target([] { expect_reference(DType::bf16, DType::f32); });
}

TEST(Embedding, ThreadsAndPiecesChangeNoBit) {
  for (const DType t : {DType::f32, DType::bf16}) {
    const std::string one = compute(t, DType::f32, 1, kOnePiece).bytes();
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
      EXPECT_EQ(compute(t, DType::f32, threads, kFourPieces).bytes(), one) << threads << " threads";
    }
  }
}

/// Adds 256 and then ones to a row, in one lookup or one a position.
double lookup_of_ones(DType acc, bool at_once) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  const size_t count = 5;
  Tensor dx(DType::bf16, count), accumulator(acc, 1);
  for (size_t i = 0; i < count; ++i) dx.set(i, i == 0 ? 256.0f : 1.0f);
  accumulator.set(0, 0.0f);
  const std::vector<int32_t> tokens(count, 0);
  const Buffer scratch(host::lookup_gradient_scratch(count, 1));
  host::LookupGradient args{.dtype = DType::bf16,
                            .accumulator_dtype = acc,
                            .dx = dx.data(),
                            .tokens = tokens.data(),
                            .scratch = scratch.data(),
                            .count = count,
                            .vocabulary = 1,
                            .width = 1};
  args.accumulator.count = 1;
  args.accumulator.pieces[0] = {accumulator.data(), 0, 1};
  if (at_once) {
    host::lookup_gradient(pool, args);
  } else {
    args.count = 1;
    for (size_t i = 0; i < count; ++i, args.dx = static_cast<const Bf16*>(args.dx) + 1) {
      host::lookup_gradient(pool, args);
    }
  }
  return accumulator.at(0);
}

TEST(Embedding, LookupSumsInSinglePrecisionThenRounds) {
  EXPECT_EQ(lookup_of_ones(DType::bf16, true), 260.0);  // 257 is no bf16: kept in fp32 till the end
  EXPECT_EQ(lookup_of_ones(DType::bf16, false), 256.0);  // each addition is rounded
  EXPECT_EQ(lookup_of_ones(DType::f32, false), 260.0);
}

TEST(Embedding, LookupRoundsBeforeItAdds) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  Tensor dx(DType::bf16, 2), accumulator(DType::f32, 1);
  dx.set(0, 256.0f);
  dx.set(1, 1.0f);
  accumulator.set(0, 1.0f);
  const std::vector<int32_t> tokens(2, 0);
  const Buffer scratch(host::lookup_gradient_scratch(2, 1));
  host::LookupGradient args{.dtype = DType::bf16,
                            .dx = dx.data(),
                            .tokens = tokens.data(),
                            .scratch = scratch.data(),
                            .count = 2,
                            .vocabulary = 1,
                            .width = 1};
  args.accumulator.count = 1;
  args.accumulator.pieces[0] = {accumulator.data(), 0, 1};
  host::lookup_gradient(pool, args);
  EXPECT_EQ(accumulator.at(0), 257.0);  // 1 + bf16(257), which is 256
}

TEST(Embedding, RefusesTokensOutsideTheVocabulary) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  const Tensor table = Tensor::random(DType::f32, 4, 1), x(DType::f32, 2);
  for (const int32_t bad : {-1, 2}) {
    const std::vector<int32_t> tokens = {1, bad};
    const host::EmbeddingForward args{.x = x.data(),
                                      .tokens = tokens.data(),
                                      .token_table = table.data(),
                                      .position_table = table.data(),
                                      .batch = 1,
                                      .seq = 2,
                                      .width = 1,
                                      .vocabulary = 2};
    EXPECT_THROW(host::embedding_forward(pool, args), ConfigError);
  }
}

TEST(Embedding, RefusesAccumulatorWithGaps) {
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  const Tensor dx = Tensor::random(DType::f32, 2, 1),
               accumulator = Tensor::random(DType::f32, 8, 2);
  const std::vector<int32_t> tokens = {1, 0};
  const Buffer scratch(host::lookup_gradient_scratch(2, 8));
  host::LookupGradient args{.dx = dx.data(),
                            .tokens = tokens.data(),
                            .scratch = scratch.data(),
                            .count = 2,
                            .vocabulary = 8,
                            .width = 1};
  args.accumulator.count = 2;
  args.accumulator.pieces[0] = {accumulator.data(), 0, 4};
  args.accumulator.pieces[1] = {accumulator.floats() + 5, 5, 3};
  EXPECT_THROW(host::lookup_gradient(pool, args), StateError);
  args.accumulator.pieces[1] = {accumulator.floats() + 4, 5, 4};  // as many elements, misplaced
  EXPECT_THROW(host::lookup_gradient(pool, args), StateError);
  args.accumulator.count = 1;
  EXPECT_THROW(host::lookup_gradient(pool, args), StateError);
}

}  // namespace
}  // namespace strata
