// Vector passes of the fused head. Logits lie transposed, [vocabulary][rows], so that a softmax
// runs down columns and every pass works on whole vectors of rows.
#pragma once
#include <cstdint>

#include "runtime/dtype.hpp"

namespace strata::host {

/// Exponentials of a tile of logits x [rows][cols]: e = exp(x - maxima) in type `t`, maxima and
/// sums over each column. A logit that is not finite makes its column's sum NaN.
void exponentials(const float* x, int64_t rows, int64_t cols, DType t, void* e, float* maxima,
                  float* sums);

/// Joins `tiles` such maxima and sums, tile i at offset i * stride: maximum and sum of exp(x -
/// maximum) for each of `cols` columns, sums in order of i.
void join_exponentials(const float* maxima, const float* sums, int64_t tiles, int64_t stride,
                       int64_t cols, float* maximum, float* sum);

/// factors = weights * exp(maxima - log_sums), each [cols].
void softmax_factors(const float* maxima, const float* log_sums, const float* weights, int64_t cols,
                     float* factors);

/// out = e * factors, e and out [rows][cols] in type `t`, factors [cols].
void scale_columns(const void* e, int64_t rows, int64_t cols, DType t, const float* factors,
                   void* out);

/// out = the sum over `parts` of part [i * stride + element] in order of i, rounded to `t` once.
void sum_parts(const float* part, int64_t parts, int64_t stride, int64_t count, DType t, void* out);

}  // namespace strata::host
