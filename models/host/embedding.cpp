#include "models/host/embedding.hpp"

#include <fmt/format.h>

#include <cstring>

#include "models/host/row_groups.hpp"
#include "runtime/errors.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "models/host/embedding.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "models/host/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace strata::host::HWY_NAMESPACE {
namespace {

// Every `*_lanes` handles whole vectors of D from element i on and returns where it stopped.

template <class D, class T>
HWY_INLINE size_t add_lanes(D d, T* r, const T* x, const T* y, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  for (; i + step <= n; i += step) store(d, hn::Add(load(d, x + i), load(d, y + i)), r + i);
  return i;
}

template <class T>
HWY_INLINE void add_rows(T* r, const T* x, const T* y, size_t n) {
  add_lanes(One(), r, x, y, add_lanes(Full(), r, x, y, 0, n), n);
}

template <class T>
void forward_rows(const EmbeddingForward& p, size_t begin, size_t end) {
  const size_t n = p.width;
  for (size_t row = begin; row < end; ++row) {
    add_rows(static_cast<T*>(p.x) + row * n,
             static_cast<const T*>(p.token_table) + static_cast<size_t>(p.tokens[row]) * n,
             static_cast<const T*>(p.position_table) + row % p.seq * n, n);
  }
}

void forward_f32(const EmbeddingForward& p, size_t begin, size_t end) {
  forward_rows<float>(p, begin, end);
}
void forward_bf16(const EmbeddingForward& p, size_t begin, size_t end) {
  forward_rows<Bf16>(p, begin, end);
}

/// Sum of count elements `stride` * row(k) after `from`, in ascending k.
template <class D, class T, class Rows>
HWY_INLINE hn::VFromD<D> sum_rows(D d, const T* from, size_t stride, Rows row, size_t count) {
  auto total = hn::Zero(d);
  for (size_t k = 0; k < count; ++k) total = hn::Add(total, load(d, from + row(k) * stride));
  return total;
}

template <class D, class T>
HWY_INLINE size_t position_lanes(D d, const PositionGradient& p, T* r, size_t t, size_t i) {
  const size_t step = hn::Lanes(d);
  const T* from = static_cast<const T*>(p.dx) + t * p.width;
  const auto row = [&](size_t b) HWY_ATTR { return b * p.seq; };
  for (; i + step <= p.width; i += step) {
    store(d, sum_rows(d, from + i, p.width, row, p.batch), r + i);
  }
  return i;
}

template <class T>
void position_rows(const PositionGradient& p, size_t begin, size_t end) {
  for (size_t t = begin; t < end; ++t) {
    T* r = static_cast<T*>(p.dtable) + t * p.width;
    if (t < p.seq) {
      position_lanes(One(), p, r, t, position_lanes(Full(), p, r, t, 0));
    } else {
      std::memset(r, 0, p.width * sizeof(T));
    }
  }
}

void position_f32(const PositionGradient& p, size_t begin, size_t end) {
  position_rows<float>(p, begin, end);
}
void position_bf16(const PositionGradient& p, size_t begin, size_t end) {
  position_rows<Bf16>(p, begin, end);
}

/// Adds columns of the rows of dx at `positions`, from `dx` on, to n elements at `acc`.
template <class D, class Acc, class T>
HWY_INLINE size_t lookup_lanes(D d, Acc* acc, const T* dx, size_t width, const uint32_t* positions,
                               size_t count, size_t i, size_t n) {
  const size_t step = hn::Lanes(d);
  const auto row = [=](size_t k) HWY_ATTR { return static_cast<size_t>(positions[k]); };
  HWY_ALIGN T rounded[hn::MaxLanes(D())];
  for (; i + step <= n; i += step) {
    store(d, sum_rows(d, dx + i, width, row, count), rounded);
    store(d, hn::Add(load(d, acc + i), load(d, rounded)), acc + i);
  }
  return i;
}

/// acc += sum, over the pieces that hold the row.
template <class Acc, class T>
HWY_INLINE void lookup_pieces(const LookupGradient& p, size_t row, const uint32_t* positions,
                              size_t count) {
  const uint64_t begin = row * p.width;
  const uint64_t end = begin + p.width;
  for (uint32_t k = 0; k < p.accumulator.count; ++k) {
    const auto& piece = p.accumulator.pieces[k];
    const uint64_t from = std::max(begin, piece.begin);
    const uint64_t to = std::min(end, piece.begin + piece.elems);
    if (from >= to) continue;
    Acc* acc = static_cast<Acc*>(piece.data) + (from - piece.begin);
    const T* dx = static_cast<const T*>(p.dx) + (from - begin);
    const size_t i = lookup_lanes(Full(), acc, dx, p.width, positions, count, 0, to - from);
    lookup_lanes(One(), acc, dx, p.width, positions, count, i, to - from);
  }
}

/// `positions` [count] are where vocabulary row `row` occurs, ascending.
template <class T>
void lookup_row(const LookupGradient& p, size_t row, const uint32_t* positions, size_t count) {
  if (p.accumulator_dtype == DType::f32) {
    lookup_pieces<float, T>(p, row, positions, count);
  } else {
    lookup_pieces<Bf16, T>(p, row, positions, count);
  }
}

void lookup_f32(const LookupGradient& p, size_t row, const uint32_t* positions, size_t count) {
  lookup_row<float>(p, row, positions, count);
}
void lookup_bf16(const LookupGradient& p, size_t row, const uint32_t* positions, size_t count) {
  lookup_row<Bf16>(p, row, positions, count);
}

}  // namespace
}  // namespace strata::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::host {

HWY_EXPORT(forward_f32);
HWY_EXPORT(forward_bf16);
HWY_EXPORT(position_f32);
HWY_EXPORT(position_bf16);
HWY_EXPORT(lookup_f32);
HWY_EXPORT(lookup_bf16);

namespace {

/// A stray token would read or write outside the tables.
void check_tokens(const int32_t* tokens, size_t count, size_t vocabulary) {
  for (size_t i = 0; i < count; ++i) {
    if (static_cast<uint32_t>(tokens[i]) >= vocabulary) {
      throw ConfigError(fmt::format(
          "embedding: token {} at position {} of the batch is outside the vocabulary of "
          "{} rows; the text was encoded for another model, or the vocabulary is too "
          "small",
          tokens[i], i, vocabulary));
    }
  }
}

void check_pieces(const LookupGradient& args) {
  uint64_t covered = 0;
  bool ok = args.accumulator.count <= ScatteredTensor::kMaxPieces;
  for (uint32_t k = 0; ok && k < args.accumulator.count; ++k) {
    ok = args.accumulator.pieces[k].begin == covered;
    covered += args.accumulator.pieces[k].elems;
  }
  if (!ok || covered != uint64_t{args.vocabulary} * args.width) {
    throw StateError(fmt::format(
        "lookup gradient: the accumulator's {} pieces must cover the {} x {} tensor in "
        "ascending order without gaps, at most {} of them",
        args.accumulator.count, args.vocabulary, args.width, ScatteredTensor::kMaxPieces));
  }
}

/// Positions of the tokens, sorted by token and then by position, and the tokens that occur.
struct Occurrences {
  uint32_t* ends;       // [vocabulary]: one past the last position of each row
  uint32_t* positions;  // [count]
  uint32_t* rows;       // the distinct tokens, ascending
  uint32_t distinct;
};

Occurrences sort_by_token(const LookupGradient& args) {
  Occurrences o{};
  o.ends = static_cast<uint32_t*>(args.scratch);
  o.positions = o.ends + args.vocabulary;
  o.rows = o.positions + args.count;
  std::memset(o.ends, 0, args.vocabulary * sizeof(uint32_t));
  for (size_t i = 0; i < args.count; ++i) ++o.ends[args.tokens[i]];
  uint32_t start = 0;
  for (size_t row = 0; row < args.vocabulary; ++row) {
    const uint32_t n = o.ends[row];
    if (n) o.rows[o.distinct++] = static_cast<uint32_t>(row);
    o.ends[row] = start;
    start += n;
  }
  for (size_t i = 0; i < args.count; ++i) {
    o.positions[o.ends[args.tokens[i]]++] = static_cast<uint32_t>(i);
  }
  return o;
}

}  // namespace

void embedding_forward(ThreadPool& pool, const EmbeddingForward& args) {
  const size_t rows = args.batch * args.seq;
  check_tokens(args.tokens, rows, args.vocabulary);
  const auto forward = args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(forward_f32)
                                                : HWY_DYNAMIC_DISPATCH(forward_bf16);
  for_groups(pool, rows, kTaskRows,
             [&](size_t, size_t begin, size_t end) { forward(args, begin, end); });
}

void position_gradient(ThreadPool& pool, const PositionGradient& args) {
  const auto rows = args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(position_f32)
                                             : HWY_DYNAMIC_DISPATCH(position_bf16);
  for_groups(pool, args.positions, kTaskRows,
             [&](size_t, size_t begin, size_t end) { rows(args, begin, end); });
}

size_t lookup_gradient_scratch(size_t count, size_t vocabulary) {
  return (vocabulary + count + std::min(count, vocabulary)) * sizeof(uint32_t);
}

void lookup_gradient(ThreadPool& pool, const LookupGradient& args) {
  check_tokens(args.tokens, args.count, args.vocabulary);
  check_pieces(args);
  const Occurrences o = sort_by_token(args);
  const auto lookup = args.dtype == DType::f32 ? HWY_DYNAMIC_DISPATCH(lookup_f32)
                                               : HWY_DYNAMIC_DISPATCH(lookup_bf16);
  for_groups(pool, o.distinct, 1, [&](size_t k, size_t, size_t) {
    const size_t row = o.rows[k];
    const uint32_t begin = k == 0 ? 0 : o.ends[o.rows[k - 1]];
    lookup(args, row, o.positions + begin, o.ends[row] - begin);
  });
}

}  // namespace strata::host
#endif
