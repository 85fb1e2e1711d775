#include "runtime/kernels/square_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "runtime/errors.hpp"
#include "runtime/kernels/ieee_scope.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/square_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "runtime/kernels/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::kernels::HWY_NAMESPACE {

// Eight lanes of doubles are one vector or several: the order of additions is the same.
using Lanes8 = hn::CappedTag<double, 8>;

template <class T>
HWY_INLINE double leaf(const T* x) {
  const Lanes8 d;
  const hn::Rebind<float, Lanes8> df;
  const size_t step = hn::Lanes(d);
  for (size_t k = 0; k < 64; k += 64 / sizeof(T)) prefetch_ahead(x + k);
  alignas(64) double s[8];
  for (size_t lane = 0; lane < 8; lane += step) {
    auto sum = hn::Zero(d);
    for (size_t row = 0; row < 64; row += 8) {
      const auto v = hn::PromoteTo(d, load(df, x + row + lane));
      sum = hn::Add(sum, hn::Mul(v, v));
    }
    hn::Store(sum, d, s + lane);
  }
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

void leaves_f32(const void* x, uint64_t count, double* out) {
  const auto* p = static_cast<const float*>(x);
  for (uint64_t i = 0; i < count; ++i) out[i] = leaf(p + 64 * i);
}
void leaves_bf16(const void* x, uint64_t count, double* out) {
  const auto* p = static_cast<const Bf16*>(x);
  for (uint64_t i = 0; i < count; ++i) out[i] = leaf(p + 64 * i);
}

}  // namespace strata::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::kernels {

HWY_EXPORT(leaves_f32);
HWY_EXPORT(leaves_bf16);

namespace {

constexpr uint64_t kBatch = 64;       // leaves folded at a time
constexpr uint32_t kMinBlock = 10;    // log2 of the leaves a pool thread takes at a time
constexpr uint64_t kMaxBlocks = 512;  // whole blocks whose sums fit the scratch on the stack

/// Level of the largest node that begins at leaf `i` and ends by leaf `end`.
uint32_t level_at(uint64_t i, uint64_t end) {
  const uint32_t fits = 63 - std::countl_zero(end - i);
  return i == 0 ? fits : std::min<uint32_t>(fits, std::countr_zero(i));
}

uint32_t count_nodes(uint64_t i, uint64_t end) {
  uint32_t count = 0;
  for (; i < end; i += uint64_t{1} << level_at(i, end)) ++count;
  return count;
}

/// Adds nodes that arrive in ascending order into the tree, as a binary counter carries: the stack
/// holds one node for each bit set in the number of leaves so far.
class Tree {
 public:
  void push(uint32_t level, double value) {
    while (leaves_ >> level & 1) {
      value = stack_[--depth_] + value;
      leaves_ -= uint64_t{1} << level++;
    }
    stack_[depth_++] = value;
    leaves_ += uint64_t{1} << level;
  }
  /// A missing right child adds nothing.
  double total() const {
    if (depth_ == 0) return 0;
    double sum = stack_[depth_ - 1];
    for (uint32_t i = depth_ - 1; i-- > 0;) sum = stack_[i] + sum;
    return sum;
  }

 private:
  double stack_[64];
  uint32_t depth_ = 0;
  uint64_t leaves_ = 0;
};

/// Which NaN comes out of NaN + NaN is the compiler's choice; send one.
double canonical(double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; }

/// The elements of a slice, addressed by leaf index within the tensor.
struct Leaves {
  const std::byte* x;
  DType type;
  uint64_t first;  // leaf where x begins
  uint64_t end;    // element where the slice ends

  /// Leaf sums of [i, i + count).
  void sums(uint64_t i, uint64_t count, double* out) const {
    const uint64_t whole = std::min(count, end / kSquareSumLeaf - i);
    const std::byte* p = x + (i - first) * kSquareSumLeaf * size_of(type);
    run(p, whole, out);
    if (whole == count) return;
    // The last leaf of the tensor: zeros in place of what is missing add nothing.
    alignas(64) std::byte padded[kSquareSumLeaf * sizeof(float)] = {};
    const std::byte* tail = p + whole * kSquareSumLeaf * size_of(type);
    std::copy_n(tail, end % kSquareSumLeaf * size_of(type), padded);
    run(padded, 1, out + whole);
  }

  /// The node of `level` that begins at leaf i.
  double node(uint64_t i, uint32_t level) const {
    alignas(64) double s[kBatch];
    const uint64_t leaves = uint64_t{1} << level;
    Tree tree;
    for (uint64_t done = 0; done < leaves; done += kBatch) {
      const uint64_t count = std::min(leaves, kBatch);
      sums(i + done, count, s);
      for (uint64_t width = count / 2; width > 0; width /= 2) {
        for (uint64_t k = 0; k < width; ++k) s[k] = s[2 * k] + s[2 * k + 1];
      }
      tree.push(0, s[0]);
    }
    return tree.total();
  }

  /// Writes the maximal nodes of leaves [i, stop).
  void nodes(uint64_t i, uint64_t stop, double* out) const {
    while (i < stop) {
      const uint32_t level = level_at(i, stop);
      *out++ = canonical(node(i, level));
      i += uint64_t{1} << level;
    }
  }

 private:
  void run(const std::byte* p, uint64_t count, double* out) const {
    if (type == DType::f32) {
      HWY_DYNAMIC_DISPATCH(leaves_f32)(p, count, out);
    } else {
      HWY_DYNAMIC_DISPATCH(leaves_bf16)(p, count, out);
    }
  }
};

std::string range(uint64_t begin, uint64_t n, uint64_t total) {
  return "elements [" + std::to_string(begin) + ", " + std::to_string(begin + n) +
         ") of a tensor of " + std::to_string(total);
}

void check_slice(uint64_t begin, uint64_t n, uint64_t total) {
  const bool within = begin <= total && n <= total - begin;
  const bool aligned =
      begin % kSquareSumLeaf == 0 && (n % kSquareSumLeaf == 0 || (within && begin + n == total));
  if (within && aligned) return;
  throw StateError("square_sum of " + range(begin, n, total) +
                   (within ? ": cuts must be at multiples of 64 elements"
                           : ": the slice reaches beyond the tensor"));
}

uint64_t leaves_in(uint64_t elements) {
  return elements / kSquareSumLeaf + (elements % kSquareSumLeaf != 0);
}

}  // namespace

uint32_t square_sum_node_count(uint64_t begin, uint64_t n, uint64_t total) {
  check_slice(begin, n, total);
  return n == 0 ? 0 : count_nodes(begin / kSquareSumLeaf, leaves_in(begin + n));
}

void square_sum(ThreadPool& pool, const void* x, DType type, uint64_t begin, uint64_t n,
                uint64_t total, double* nodes) {
  check_slice(begin, n, total);
  if (n == 0) return;
  const IeeeScope ieee;
  const uint64_t first = begin / kSquareSumLeaf;
  const uint64_t last = leaves_in(begin + n);
  const Leaves leaves{static_cast<const std::byte*>(x), type, first, begin + n};

  // Threads take blocks of 2^level leaves. A perfect tree has the same nodes whatever the level, so
  // it may follow the size of the slice.
  uint32_t level = kMinBlock;
  while ((last - first) >> level >= kMaxBlocks) ++level;
  const uint64_t block = uint64_t{1} << level;
  const uint64_t first_whole = (first + block - 1) >> level;
  const uint64_t end_whole = last >> level;
  if (first_whole >= end_whole) {  // no whole block: small
    pool.parallel_for(1, [&](uint32_t) { leaves.nodes(first, last, nodes); });
    return;
  }
  double sums[kMaxBlocks];
  const uint64_t head_end = first_whole << level;
  const uint64_t tail_begin = end_whole << level;
  const uint32_t head = count_nodes(first, head_end);
  const uint32_t middle = count_nodes(first_whole, end_whole);
  const auto whole = static_cast<uint32_t>(end_whole - first_whole);
  pool.parallel_for(whole + 2, [&](uint32_t i) {
    if (i < whole) {
      sums[i] = leaves.node((first_whole + i) << level, level);
    } else if (i == whole) {
      leaves.nodes(first, head_end, nodes);
    } else {
      leaves.nodes(tail_begin, last, nodes + head + middle);
    }
  });
  double* out = nodes + head;
  for (uint64_t i = first_whole; i < end_whole;) {
    const uint64_t count = uint64_t{1} << level_at(i, end_whole);
    Tree tree;
    for (uint64_t k = 0; k < count; ++k) tree.push(0, sums[i - first_whole + k]);
    *out++ = canonical(tree.total());
    i += count;
  }
}

double square_sum_combine(std::span<const SquareSumSlice> slices, uint64_t total) {
  const IeeeScope ieee;
  Tree tree;
  uint64_t done = 0;
  for (const SquareSumSlice& slice : slices) {
    check_slice(slice.begin, slice.n, total);
    if (slice.begin != done) {
      throw StateError("square_sum_combine: " + range(slice.begin, slice.n, total) +
                       " do not continue at " + std::to_string(done) +
                       "; slices must ascend and cover the tensor exactly");
    }
    done += slice.n;
    if (slice.n == 0) continue;
    const uint64_t end = leaves_in(done);
    const double* node = slice.nodes;
    for (uint64_t i = slice.begin / kSquareSumLeaf; i < end;) {
      const uint32_t level = level_at(i, end);
      tree.push(level, *node++);
      i += uint64_t{1} << level;
    }
  }
  if (done != total) {
    throw StateError("square_sum_combine: slices end at " + std::to_string(done) +
                     " of a tensor of " + std::to_string(total));
  }
  return canonical(tree.total());
}

}  // namespace strata::kernels
#endif
