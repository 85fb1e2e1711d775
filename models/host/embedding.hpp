// Token and position embeddings, forward and backward.
#pragma once
#include <cstddef>
#include <cstdint>

#include "offload/op.hpp"
#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// x[i] = token_table[tokens[i]] + position_table[i % seq] for i < batch * seq, in fp32, rounded
/// once. Tables are [vocabulary, width] and [>= seq, width] of `dtype`. Throws ConfigError for a
/// token outside the vocabulary.
struct EmbeddingForward {
  DType dtype = DType::f32;
  void* x = nullptr;
  const int32_t* tokens = nullptr;
  const void* token_table = nullptr;
  const void* position_table = nullptr;
  size_t batch = 0, seq = 0, width = 0, vocabulary = 0;
};
void embedding_forward(ThreadPool& pool, const EmbeddingForward& args);

/// dtable[t] = sum over the batch, in ascending order from 0, of dx[b * seq + t], in fp32, rounded
/// once to `dtype`; rows from seq to `positions` become zero.
struct PositionGradient {
  DType dtype = DType::f32;
  void* dtable = nullptr;
  const void* dx = nullptr;
  size_t batch = 0, seq = 0, positions = 0, width = 0;
};
void position_gradient(ThreadPool& pool, const PositionGradient& args);

/// Adds the gradient of a token lookup to an accumulator: for every vocabulary row that occurs in
/// `tokens`, the rows of dx [tokens, width] at its positions are summed in ascending order in fp32,
/// rounded to `dtype`, and added to the accumulator's row (in fp32, rounded to
/// `accumulator_dtype`). Other rows are not touched. Throws ConfigError for a token outside the
/// vocabulary, StateError unless the accumulator's pieces cover [vocabulary, width] in ascending
/// order without gaps. A row may straddle pieces.
struct LookupGradient {
  DType dtype = DType::f32;
  DType accumulator_dtype = DType::f32;
  ScatteredTensor accumulator{};
  const void* dx = nullptr;
  const int32_t* tokens = nullptr;
  void* scratch = nullptr;  ///< lookup_gradient_scratch bytes, 64-byte aligned
  size_t count = 0;         ///< number of tokens
  size_t vocabulary = 0, width = 0;
};
void lookup_gradient(ThreadPool& pool, const LookupGradient& args);
size_t lookup_gradient_scratch(size_t count, size_t vocabulary);

}  // namespace strata::host
