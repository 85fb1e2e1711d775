// What happens to a tile of a matrix product while it is in cache.
#pragma once
#include <cstdint>

#include "runtime/dtype.hpp"

namespace strata::host {

/// What is done to the fp32 product x before it is stored, rounded once.
enum class Epilogue : uint8_t {
  none,           ///< c = x
  bias,           ///< c = x + bias
  bias_gelu,      ///< c = x + bias (what backward needs), activation = gelu(c as rounded)
  bias_residual,  ///< c = x + bias + residual
  gelu_backward,  ///< c = x * gelu'(saved), saved being what went into gelu
};

/// One tile: `x` is [rows, cols] fp32 with leading dimension ldx. `c`, `residual`, `saved` and
/// `activation` point to the tile's first element in matrices with leading dimension ldc, `bias` to
/// the tile's first column; all have type `dtype`. Pointers that the epilogue does not use are
/// null.
struct TileOutput {
  Epilogue epilogue = Epilogue::none;
  DType dtype = DType::f32;
  int64_t rows = 0, cols = 0;
  const float* x = nullptr;
  int64_t ldx = 0;
  void* c = nullptr;
  int64_t ldc = 0;
  const void* bias = nullptr;
  const void* residual = nullptr;
  const void* saved = nullptr;
  void* activation = nullptr;
  bool stream_c = false;  ///< past the caches; with Epilogue::none only
};

void write_tile(const TileOutput& tile);

}  // namespace strata::host
