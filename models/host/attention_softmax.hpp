// Softmax of causal attention over blocks of scores, forward and backward.
#pragma once
#include <cstddef>

#include "runtime/dtype.hpp"

namespace strata::host {

/// Scores of `rows` consecutive queries with keys [0, cols), as Q K^T gave them; query row r may
/// look at the first `first_row` + r + 1 keys.
struct SoftmaxForward {
  DType dtype = DType::f32;
  void* p = nullptr;  ///< [rows, cols] of dtype: exp(scale * (score - max)), 0 where masked; may be
                      ///< `scores` itself in fp32
  float* inverse = nullptr;  ///< [rows]: 1 / sum of the exponentials
  float* lse = nullptr;      ///< [rows]: log of the sum of exp(scale * score)
  const float* scores = nullptr;
  size_t rows = 0, cols = 0, first_row = 0;
  float scale = 1.0f;
};
void softmax_forward(const SoftmaxForward& args);

/// Scores of `rows` consecutive keys with `cols` queries that start at the first of these keys, as
/// K Q^T gave them; key row r is seen by queries r, r + 1, ....
struct SoftmaxBackward {
  DType dtype = DType::f32;
  void* p = nullptr;   ///< [rows, cols] of dtype: probabilities; may be `scores` itself in fp32
  void* ds = nullptr;  ///< [rows, cols] of dtype: gradient of the scaled scores, p * (dp - delta);
                       ///< may be `dp` itself in fp32
  const float* scores = nullptr;
  const float* dp = nullptr;     ///< [rows, cols]: gradient of the probabilities
  const float* shift = nullptr;  ///< [cols]: log-sum-exp of a query, times log2(e)
  const float* delta = nullptr;  ///< [cols]: dot product of a query's output and its gradient
  size_t rows = 0, cols = 0;
  float scale = 1.0f;
};
void softmax_backward(const SoftmaxBackward& args);

/// out[r, :] = x[r, :] * factor[r], or * common when factor is null, from dense fp32 rows to rows
/// of dtype that are `ldo` elements apart.
void scale_rows(DType dtype, void* out, size_t ldo, const float* x, const float* factor,
                float common, size_t rows, size_t width);

/// shift[i] = lse[i] * log2(e).
void shift_rows(float* shift, const float* lse, size_t rows);

/// dots[r] = sum of a[r, :] * b[r, :] for rows of dtype, `ld` elements apart.
void dot_rows(DType dtype, float* dots, const void* a, const void* b, size_t ld, size_t rows,
              size_t width);

}  // namespace strata::host
