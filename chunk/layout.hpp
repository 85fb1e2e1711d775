// Which element of which tensor lies where in which chunk. Pure.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "chunk/param.hpp"

namespace strata {

/// Chunks that may be packed together: same shard group, dtype and trainability.
struct ChunkClass {
  GroupId group = 0;
  DType dtype = DType::f32;
  bool trainable = true;
  bool operator==(const ChunkClass&) const = default;
};

/// A run of one tensor inside one chunk, in elements. Offsets are multiples of 64.
struct Piece {
  ParamId param;
  ChunkId chunk;
  uint64_t param_offset, chunk_offset, elems;
};

struct LayoutOptions {
  /// Elements of every chunk; a multiple of 2048 * ranks.
  uint64_t chunk_elems = 0;
  /// P, the ranks of a shard group.
  uint32_t ranks = 1;
};

/// Tensors are packed in the order given, next-fit within their class, so a layer's tensors lie
/// together. A tensor longer than a chunk starts a fresh chunk and spans consecutive ones.
class ChunkLayout {
 public:
  static constexpr uint64_t kAlignElems = 64;
  static constexpr uint64_t kQuantum = 2048;

  /// More chunks than any plan is made for; their bookkeeping alone would fill the memory.
  static constexpr uint64_t kMostChunks = uint64_t{1} << 20;

  /// Throws ConfigError when `chunk_elems` is not a positive multiple of 2048 * ranks, there would
  /// be more than `kMostChunks`, or a parameter is empty, has a size that is not positive, or is
  /// tied to something it cannot share storage with.
  static ChunkLayout build(std::span<const ParamSpec>, const LayoutOptions&);
  /// The chunk size, in elements, with the least padding between the largest matrix and a quarter
  /// more. Left out, as embeddings: the largest sixteenth of the matrices, and those more than 4
  /// times the median; and never so small that there were more than 2^17 chunks. Throws ConfigError
  /// as `build`.
  static uint64_t search_chunk_elems(std::span<const ParamSpec>, uint32_t ranks);

  /// The chunk size, in elements, whose weights take at least so many bytes; 0: searched. For one
  /// rank.
  static uint64_t chunk_elems_of(std::span<const ParamSpec>, uint64_t chunk_bytes);

  std::span<const ParamSpec> params() const noexcept { return params_; }
  /// The parameter whose storage `p` uses: itself unless tied.
  ParamId storage_of(ParamId p) const noexcept { return storage_[p]; }
  std::span<const Piece> of_param(ParamId p) const noexcept;
  std::span<const Piece> in_chunk(ChunkId c) const noexcept;
  uint32_t chunks() const noexcept { return static_cast<uint32_t>(chunk_class_.size()); }
  const ChunkClass& class_of(ChunkId c) const noexcept { return classes_[chunk_class_[c]]; }
  std::span<const ChunkClass> classes() const noexcept { return classes_; }
  uint64_t chunk_elems() const noexcept { return options_.chunk_elems; }
  uint32_t ranks() const noexcept { return options_.ranks; }
  /// Elements [begin, end) of every chunk that `rank` owns.
  std::pair<uint64_t, uint64_t> shard(uint32_t rank) const noexcept;
  /// True when a tensor longer than a chunk has a part in `c`.
  bool in_span(ChunkId c) const noexcept { return spanned_[c]; }
  /// Elements of all chunks over elements of all tensors, minus 1.
  double padding() const noexcept;
  uint64_t hash() const;

 private:
  std::vector<ParamSpec> params_;
  LayoutOptions options_;
  std::vector<ParamId> storage_;
  std::vector<ChunkClass> classes_;
  std::vector<uint16_t> chunk_class_;
  std::vector<bool> spanned_;
  std::vector<Piece> by_param_, by_chunk_;
  std::vector<uint32_t> param_begin_, chunk_begin_;  // prefix offsets into the two above
};

}  // namespace strata
