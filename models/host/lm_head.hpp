// The tied language-model head fused with softmax-cross-entropy, forward and backward.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

struct LmHeadPlan;

struct LmHeadArgs {
  const void* x = nullptr;           ///< [rows, width], after the final norm
  const void* wte = nullptr;         ///< [vocabulary, width]
  const int32_t* targets = nullptr;  ///< [rows], below vocabulary; negative: no target
  float scale = 1.0f;                ///< of the gradient: 1 / (target tokens of the global batch)
  void* dx = nullptr;                ///< [rows, width]
  void* dwte = nullptr;              ///< [vocabulary, width], overwritten
  double* loss_sum = nullptr;    ///< sum over rows with a target of -log softmax(x wte^T)[target]
  std::byte* scratch = nullptr;  ///< at a 64-byte boundary
};

/// logits = x wte^T, the loss, and the gradients of scale * loss with respect to x and wte, for
/// blocks of rows in turn; the threads of the pool share the vocabulary. Sums are fp32, in an order
/// that depends on the sizes alone; the loss adds up in double in order of rows. What is kept
/// between forward and backward are not logits but their exponentials relative to the maximum of a
/// tile, in the type of the weights. A logit that is not finite gives a loss that is not finite.
class LmHead {
 public:
  /// Scratch is for pools of up to `threads`. Throws ConfigError when a size is not positive.
  LmHead(int64_t rows, int64_t width, int64_t vocabulary, DType dtype, uint32_t threads);
  ~LmHead();
  LmHead(LmHead&&) noexcept;
  LmHead& operator=(LmHead&&) noexcept;

  size_t scratch_bytes() const noexcept;
  size_t evaluate_scratch_bytes() const noexcept;
  /// Rows whose exponentials are kept at a time: in fp32 at most 512 and never all of many rows.
  int64_t block_rows() const noexcept;

  /// Writes dx, dwte and loss_sum. The caller holds the pool's turn. Throws StateError for a target
  /// outside the vocabulary and for a pool of more threads.
  void run(ThreadPool& pool, const LmHeadArgs& args) const;
  /// Writes loss_sum alone; scale, dx and dwte are not used.
  void evaluate(ThreadPool& pool, const LmHeadArgs& args) const;

 private:
  std::unique_ptr<const LmHeadPlan> plan_;
};

}  // namespace strata::host
