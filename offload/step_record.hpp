// Values known only at the end of a step, in one record in the device arena, written by kernels and
// read by pointer, so that no step synchronises.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "offload/state_shape.hpp"
#include "runtime/kernels/square_sum.hpp"

namespace strata {

struct StepRecord {
  kernels::StepScale scale{1, 1, 1, 1};
  double loss = 0;       // mean over the target tokens
  double grad_norm = 0;  // before clipping
  /// First tensor, in registration order, whose gradient is not finite; UINT32_MAX: none.
  uint32_t nonfinite_grad = UINT32_MAX;
  uint32_t nonfinite_loss = 0;
  /// Updates that were made before this was known took what it says: nothing is clipped, all is
  /// finite.
  uint32_t as_expected = 1;
};

/// Offsets, in bytes, of the engine's own small records on the device.
class RecordLayout {
 public:
  RecordLayout(const ChunkLayout&, const StateShape&, uint32_t micro_batches);

  static constexpr uint64_t step() noexcept { return 0; }
  /// One double a micro-batch.
  uint64_t losses() const noexcept { return losses_; }
  /// One StepScale a chunk, for updates that do not wait for a step-wide value.
  uint64_t chunk_scales() const noexcept { return chunk_scales_; }
  /// Square-sum nodes of slice `i` of chunk `c`.
  uint64_t nodes(ChunkId c, size_t i) const noexcept { return nodes_[c][i]; }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  uint64_t losses_, chunk_scales_, bytes_;
  std::vector<std::vector<uint64_t>> nodes_;
};

/// Everything the norm kernel reads, built once.
class NormTable {
 public:
  NormTable(const ChunkLayout&, const StateShape&, const RecordLayout&, std::byte* records);

  struct Tensor {
    ParamId param;
    uint64_t elems;
    std::vector<kernels::SquareSumSlice> slices;
  };
  std::span<const Tensor> tensors() const noexcept { return tensors_; }

 private:
  std::vector<Tensor> tensors_;  // registration order
};

struct NormInput {
  const NormTable* table;
  StepRecord* record;
  const double* losses;
  uint32_t micro_batches;
  double target_tokens;  // of the whole step
  double clip;           // 0: no clipping
  float inv_bias1, inv_bias2;
};

/// Sums the tree nodes over tensors, the losses over micro-batches, and fills the record. Once a
/// loss or gradient was not finite, `apply` stays 0.
void finish_step(const NormInput&);

/// A chunk's own scale: applies when the loss and this chunk's gradient are finite.
struct ChunkScaleInput {
  StepRecord* record;
  kernels::StepScale* out;
  const double* losses;
  uint32_t micro_batches;
  const double* nodes;  // all nodes of the chunk's slices, contiguous
  uint32_t node_count;
  float inv_bias1, inv_bias2;
};
void finish_chunk(const ChunkScaleInput&);

}  // namespace strata
