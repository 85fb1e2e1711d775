// The products of matmul.hpp in plain C++, for sanitizers: they cannot see into code that oneDNN
// generates at run time. Cache-blocked, sums in ascending k, not meant to be fast.
#pragma once
#include <cstddef>

#include "models/host/matmul.hpp"

namespace strata::host {

/// Bytes `plain_matmul` needs at `scratch`.
size_t plain_matmul_scratch_bytes(const MatmulShape& shape);

/// Computes C as `Matmul::run` does, with other bits.
void plain_matmul(const MatmulShape& shape, const void* a, const void* b, void* c, float* scratch);

}  // namespace strata::host
