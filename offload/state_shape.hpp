// Which objects exist and how large they are, for a layout, an optimizer and a schedule. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "chunk/table.hpp"
#include "offload/program.hpp"
#include "offload/updater.hpp"

namespace strata {

class StateShape {
 public:
  /// `first` decides the accumulator's type and which tensors have gradients: all else is weights
  /// alone. Throws ConfigError when the layout mixes weight dtypes.
  StateShape(const ChunkLayout&, const Program& first, const OptimizerConfig&);

  size_t unit_bytes() const noexcept { return unit_bytes_; }
  DType weight_type() const noexcept { return weight_type_; }
  DType grad_type() const noexcept { return grad_type_; }
  /// Whether the chunk has gradients and records.
  bool trained(ChunkId c) const noexcept { return !slices_[c].empty(); }
  /// Bytes of one element of a plane.
  size_t element_bytes(Plane) const noexcept;
  /// Units of an object; 0: it does not exist.
  uint32_t units(ObjId) const noexcept;
  /// Units of all planes of a chunk.
  uint32_t chunk_units(ChunkId) const noexcept;
  /// The runs of the chunk's tensors that have gradients.
  const std::vector<ChunkSlice>& slices(ChunkId c) const noexcept { return slices_[c]; }

 private:
  size_t unit_bytes_;
  DType weight_type_, grad_type_;
  bool has_m_, has_v_;
  std::vector<std::vector<ChunkSlice>> slices_;
};

}  // namespace strata
