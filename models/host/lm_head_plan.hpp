// How the fused head cuts its work: a pure function of the sizes and the type.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "models/host/matmul.hpp"

namespace strata::host {

/// `total` in pieces of `size`; the last takes what is left, also when that is less than `least`.
struct Cut {
  int64_t total = 0, size = 0, count = 0;

  Cut() = default;
  Cut(int64_t total, int64_t size, int64_t least = 1);
  int64_t begin(int64_t i) const noexcept { return i * size; }
  int64_t length(int64_t i) const noexcept {
    return i + 1 < count ? size : total - (count - 1) * size;
  }
  int64_t longest() const noexcept { return count > 1 ? std::max(size, length(count - 1)) : total; }
};

/// The library calls for a strip of one width. Operands are packed where the library takes that.
struct LmHeadProducts {
  int64_t width = 0;
  /// B = x^T for logits, x for dwte, wte for dx (whose A is then transposed ahead).
  bool packed_logits = false, packed_dwte = false, packed_dx = false;
  std::array<const Matmul*, 2> logits{};               // [last tile of the vocabulary]
  std::array<std::array<const Matmul*, 2>, 2> dwte{};  // [last tile][adds]
  /// [last rows][last chunk of the vocabulary][adds]
  std::array<std::array<std::array<const Matmul*, 2>, 2>, 2> dx{};
  size_t scratch_bytes = 0;
};

struct LmHeadPlan {
  LmHeadPlan(int64_t rows, int64_t width, int64_t vocabulary, DType dtype, uint32_t threads);

  // Rows of wte. Chunks are tasks of the forward and steps of the backward; tiles divide them.
  static constexpr int64_t kChunk = 512;
  static constexpr int64_t kSoftmaxTile = 128;  // has one maximum for each row of x
  static constexpr int64_t kGradientTile = 256;
  static constexpr int64_t kRowTile = 128;   // rows of dx of one product
  static constexpr int64_t kSegments = 8;    // of the vocabulary; each sums its own part of dx
  static constexpr int64_t kPieceRows = 32;  // rows of dx that one thread adds up at a time

  int64_t rows, width, vocabulary;
  DType dtype;
  uint32_t threads;
  Cut blocks;                 // of rows
  std::array<Cut, 2> strips;  // of a block's rows: [last block]
  Cut chunks;                 // of the vocabulary
  int64_t softmax_tiles = 0;  // of the vocabulary
  int64_t segments = 0;
  int64_t widest = 0;            // strip
  bool keeps_fp32_dwte = false;  // bf16 gradients of several blocks add up in scratch
  std::deque<LmHeadProducts> products;

  const LmHeadProducts& of(int64_t strip_width) const;
  const Cut& strips_of(int64_t block) const { return strips[block + 1 == blocks.count]; }
  int64_t segment_begin(int64_t s) const { return s * chunks.count / segments; }  // in chunks

  /// Offsets into scratch: what all threads share, then one region each.
  struct Layout {
    size_t x_packed, xt_packed, maxima, sums, target_logits, log_sums, weights, target_gradients,
        losses, exponentials, dx_parts, dwte_sum, workers, worker_bytes, total;
    // Within a worker's region.
    size_t product, tile, factors, gradient, transposed, wte_packed;
  };
  Layout train, evaluate;

 private:
  void add_products(int64_t strip_width);
  Layout lay_out(bool backward) const;
};

}  // namespace strata::host
