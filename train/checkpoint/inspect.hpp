// What the tensors of a safetensors file hold.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "train/checkpoint/safetensors.hpp"

namespace strata {

struct TensorSummary {
  SafeTensor tensor;
  uint64_t elems = 0;
  /// Over the finite elements; both 0 when there are none, or when elements are no floats.
  double least = 0, most = 0;
  bool has_range = false;
  uint64_t nonfinite = 0;
  uint64_t hash = 0;  // XXH3 of the bytes
};

/// Reads a file once, a mebibyte at a time, and calls for each tensor in the file's order. Throws
/// ConfigError, IoError.
void inspect_safetensors(Files&, const std::string& path,
                         const std::function<void(const TensorSummary&)>&);

}  // namespace strata
