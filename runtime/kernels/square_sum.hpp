// Sums of squares whose bits do not depend on how a tensor is cut.
#pragma once
#include <cstdint>
#include <span>

#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::kernels {

// The sum over a tensor of `total` elements is a fixed binary tree over its element index, in
// double. A leaf is 64 elements: lane j < 8 adds the squares of elements j, j + 8, ... in order,
// then lanes j and j + 4 are added, then 2 apart, then 1. Leaves are combined pairwise as a perfect
// tree over the leaf index; what lies beyond the tensor adds nothing. A slice cut at multiples of
// 64 holds whole nodes of that tree: it sends its maximal ones, and `square_sum_combine` finishes.

/// Elements a leaf; slices begin at multiples of it.
constexpr uint64_t kSquareSumLeaf = 64;
/// No slice of any tensor emits more nodes than this.
constexpr uint32_t kMaxSquareSumNodes = 116;

/// Elements [begin, begin + n) of a tensor and the nodes `square_sum` wrote for them.
struct SquareSumSlice {
  uint64_t begin;
  uint64_t n;
  const double* nodes;
};

/// How many nodes `square_sum` writes. Throws StateError unless `begin`, and `n` where the slice
/// does not end at `total`, are multiples of 64 and the slice is within the tensor.
uint32_t square_sum_node_count(uint64_t begin, uint64_t n, uint64_t total);

/// Writes the nodes of x[0..n), elements [begin, begin + n) of the tensor. A NaN or infinite
/// element makes its node, and so the whole sum, NaN or infinite; finite fp32 input never does. No
/// heap; the caller holds the pool's turn. Throws as `square_sum_node_count`.
void square_sum(ThreadPool&, const void* x, DType, uint64_t begin, uint64_t n, uint64_t total,
                double* nodes);

/// The sum of squares of the whole tensor. Slices are in ascending order and cover [0, total)
/// exactly, or StateError is thrown. No heap.
double square_sum_combine(std::span<const SquareSumSlice> slices, uint64_t total);

}  // namespace strata::kernels
