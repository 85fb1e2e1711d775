// Causal multi-head attention that never stores all scores.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/host/matmul.hpp"
#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// qkv is [batch * seq, 3 * width]: queries, keys and values side by side, heads contiguous inside
/// each, width = heads * head size.
struct AttentionShape {
  DType dtype = DType::f32;
  size_t batch = 0, seq = 0, width = 0, heads = 0;

  auto operator<=>(const AttentionShape&) const = default;
};

struct AttentionForward {
  void* out = nullptr;  ///< [batch * seq, width]
  float* lse =
      nullptr;  ///< [batch, heads, seq]: log-sum-exp of the scaled scores, for the backward
  const void* qkv = nullptr;
  void* scratch = nullptr;  ///< forward_scratch(pool.threads()) bytes, 64-byte aligned
};

struct AttentionBackward {
  void* dqkv = nullptr;  ///< [batch * seq, 3 * width]
  const void* qkv = nullptr;
  const void* out = nullptr;
  const float* lse = nullptr;
  const void* dout = nullptr;
  void* scratch = nullptr;  ///< backward_scratch(pool.threads()) bytes, 64-byte aligned
};

/// One prepared shape. A thread takes a (batch, head), or one block of its queries when there are
/// few heads, and works through blocks of at most `block()` rows by seq columns in its own scratch;
/// blocks that the causal mask hides are skipped. Scores and softmax are fp32; probabilities and
/// score gradients are rounded to dtype for the products with values, queries and keys, whose sums
/// are fp32 and rounded once. Results do not depend on the number of threads.
class Attention {
 public:
  /// Throws ConfigError unless width is a multiple of heads and nothing is zero.
  explicit Attention(const AttentionShape& shape);

  const AttentionShape& shape() const noexcept { return shape_; }
  /// Rows of a block: a function of dtype and seq, and part of the numerics key.
  size_t block() const noexcept { return block_; }

  void forward(ThreadPool& pool, const AttentionForward& args) const;
  size_t forward_scratch(uint32_t threads) const noexcept;

  void backward(ThreadPool& pool, const AttentionBackward& args) const;
  size_t backward_scratch(uint32_t threads) const noexcept;

 private:
  /// Products of the b-th block. Forward: of queries with the keys up to theirs. Backward: of keys
  /// with the queries from theirs on.
  struct BlockProducts {
    const Matmul* scores;
    const Matmul* context;
    const Matmul* scores_t;
    const Matmul* key_gradient;
    const Matmul* query_gradient;
  };
  struct ForwardScratch;
  struct BackwardScratch;

  size_t begin_of(size_t b) const noexcept { return b * block_; }
  size_t end_of(size_t b) const noexcept;
  void forward_head(const AttentionForward&, size_t task, size_t first, size_t last,
                    std::byte* scratch) const;
  void backward_head(const AttentionBackward&, size_t task, std::byte* scratch) const;

  AttentionShape shape_;
  size_t head_ = 0;
  size_t block_ = 0;
  float scale_ = 1.0f;
  std::vector<BlockProducts> blocks_;
  size_t product_scratch_ = 0;
};

/// The process's one Attention of this shape, made on first use and never destroyed. Thread-safe.
const Attention& attention(const AttentionShape& shape);

}  // namespace strata::host
