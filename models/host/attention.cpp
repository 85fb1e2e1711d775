#include "models/host/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "models/host/attention_softmax.hpp"
#include "runtime/errors.hpp"
#include "runtime/kernels/ieee_scope.hpp"

namespace strata::host {

namespace {

/// Small blocks let the mask save more work, large ones keep a product efficient; on matrix units
/// (bf16) the latter weighs more.
size_t block_of(DType t, size_t seq) { return std::min<size_t>(t == DType::f32 ? 64 : 128, seq); }

/// Hands out parts of a scratch area; with a null base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  T* take(size_t bytes) {
    T* at = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

constexpr size_t kLine = 64;
constexpr size_t kAhead = 16;  // rows

/// Copies `width` elements of each row, from rows `ld` elements apart to dense ones.
void pack_rows(DType t, void* to, const void* from, size_t ld, size_t rows, size_t width) {
  const size_t bytes = width * size_of(t);
  auto* dst = static_cast<std::byte*>(to);
  const auto* src = static_cast<const std::byte*>(from);
  const size_t stride = ld * size_of(t);
  for (size_t r = 0; r < rows; ++r, dst += bytes, src += stride) {
    // Rows are too far apart for the hardware to fetch ahead.
    for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(src + kAhead * stride + i);
    size_t i = 0;
    for (; i + kLine <= bytes; i += kLine) std::memcpy(dst + i, src + i, kLine);
    std::memcpy(dst + i, src + i, bytes - i);
  }
}

template <class P>
P* offset(P* base, size_t elems, DType t) {
  using Byte = std::conditional_t<std::is_const_v<P>, const std::byte, std::byte>;
  return static_cast<Byte*>(base) + elems * size_of(t);
}

}  // namespace

/// Dense operands: the library is up to three times faster on them than on strided ones.
struct Attention::ForwardScratch {
  void *q, *k, *v;  // [seq, head]
  float* scores;    // [block, seq]
  void* p;          // [block, seq]; in fp32 the scores themselves
  float* context;   // [block, head]
  float* inverse;   // [block]
  void* product;
  size_t bytes;

  ForwardScratch(const Attention& a, std::byte* base) {
    const auto& s = a.shape_;
    const size_t head_bytes = s.seq * a.head_ * size_of(s.dtype);
    Carver c(base);
    q = c.take<void>(head_bytes);
    k = c.take<void>(head_bytes);
    v = c.take<void>(head_bytes);
    scores = c.take<float>(a.block_ * s.seq * sizeof(float));
    p = s.dtype == DType::f32 ? scores : c.take<void>(a.block_ * s.seq * size_of(s.dtype));
    context = c.take<float>(a.block_ * a.head_ * sizeof(float));
    inverse = c.take<float>(a.block_ * sizeof(float));
    product = c.take<void>(a.product_scratch_);
    bytes = c.used();
  }
};

struct Attention::BackwardScratch {
  void *q, *k, *v, *dout;  // [seq, head]
  float *shift, *delta;    // [seq]
  float *scores, *dp;      // [block, seq]
  void *p, *ds;            // [block, seq]; in fp32 the two above
  float* dq;               // [seq, head]
  float* dkv;              // [block, head]
  void* product;
  size_t bytes;

  BackwardScratch(const Attention& a, std::byte* base) {
    const auto& s = a.shape_;
    const size_t head_bytes = s.seq * a.head_ * size_of(s.dtype);
    const size_t elems = a.block_ * s.seq;
    Carver c(base);
    q = c.take<void>(head_bytes);
    k = c.take<void>(head_bytes);
    v = c.take<void>(head_bytes);
    dout = c.take<void>(head_bytes);
    shift = c.take<float>(s.seq * sizeof(float));
    delta = c.take<float>(s.seq * sizeof(float));
    scores = c.take<float>(elems * sizeof(float));
    dp = c.take<float>(elems * sizeof(float));
    p = s.dtype == DType::f32 ? scores : c.take<void>(elems * size_of(s.dtype));
    ds = s.dtype == DType::f32 ? dp : c.take<void>(elems * size_of(s.dtype));
    dq = c.take<float>(s.seq * a.head_ * sizeof(float));
    dkv = c.take<float>(a.block_ * a.head_ * sizeof(float));
    product = c.take<void>(a.product_scratch_);
    bytes = c.used();
  }
};

Attention::Attention(const AttentionShape& s) : shape_(s) {
  if (s.batch == 0 || s.seq == 0 || s.heads == 0 || s.width == 0 || s.width % s.heads != 0) {
    throw ConfigError(
        fmt::format("attention of batch {}, sequence {}, width {}, heads {}: sizes must be "
                    "positive and the width a multiple of the heads",
                    s.batch, s.seq, s.width, s.heads));
  }
  head_ = s.width / s.heads;
  block_ = block_of(s.dtype, s.seq);
  scale_ = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_)));
  const auto hd = static_cast<int64_t>(head_);
  const auto seq = static_cast<int64_t>(s.seq);
  const auto prepare = [&](MatmulShape shape) {
    shape.lda = shape.transpose_a ? shape.m : shape.k;
    shape.ldb = shape.transpose_b ? shape.k : shape.n;
    shape.ldc = shape.n;
    shape.in = s.dtype;
    const Matmul& product = matmul(shape);
    product_scratch_ = std::max(product_scratch_, product.scratch_bytes());
    return &product;
  };
  for (size_t b = 0; begin_of(b) < s.seq; ++b) {
    const auto begin = static_cast<int64_t>(begin_of(b));
    const auto end = static_cast<int64_t>(end_of(b));
    const int64_t rows = end - begin;
    const int64_t later = seq - begin;
    blocks_.push_back(
        {.scores = prepare({.m = rows, .n = end, .k = hd, .transpose_b = true}),
         .context = prepare({.m = rows, .n = hd, .k = end}),
         .scores_t = prepare({.m = rows, .n = later, .k = hd, .transpose_b = true}),
         .key_gradient = prepare({.m = rows, .n = hd, .k = later}),
         .query_gradient =
             prepare({.m = later, .n = hd, .k = rows, .transpose_a = true, .accumulate = b > 0})});
  }
}

size_t Attention::end_of(size_t b) const noexcept {
  return std::min(begin_of(b) + block_, shape_.seq);
}

size_t Attention::forward_scratch(uint32_t threads) const noexcept {
  return threads * ForwardScratch(*this, nullptr).bytes;
}

size_t Attention::backward_scratch(uint32_t threads) const noexcept {
  return threads * BackwardScratch(*this, nullptr).bytes;
}

void Attention::forward(ThreadPool& pool, const AttentionForward& args) const {
  const size_t bytes = ForwardScratch(*this, nullptr).bytes;
  const size_t tasks = shape_.batch * shape_.heads;
  // Query blocks are independent: how they are dealt out changes no result.
  const size_t parts = tasks < 4 * pool.threads() ? blocks_.size() : 1;
  const kernels::IeeeScope ieee;
  pool.parallel_for(static_cast<uint32_t>(tasks * parts), [&](uint32_t i, uint32_t worker) {
    const size_t first = parts == 1 ? 0 : i % parts;
    const size_t last = parts == 1 ? blocks_.size() : first + 1;
    forward_head(args, i / parts, first, last,
                 static_cast<std::byte*>(args.scratch) + worker * bytes);
  });
}

void Attention::forward_head(const AttentionForward& args, size_t task, size_t first, size_t last,
                             std::byte* scratch) const {
  const ForwardScratch w(*this, scratch);
  const DType t = shape_.dtype;
  const size_t width = shape_.width;
  const size_t row0 = task / shape_.heads * shape_.seq;
  const size_t column = task % shape_.heads * head_;
  const void* qkv = offset(args.qkv, row0 * 3 * width + column, t);
  pack_rows(t, w.q, qkv, 3 * width, end_of(last - 1), head_);
  pack_rows(t, w.k, offset(qkv, width, t), 3 * width, end_of(last - 1), head_);
  pack_rows(t, w.v, offset(qkv, 2 * width, t), 3 * width, end_of(last - 1), head_);
  for (size_t b = first; b < last; ++b) {
    const size_t begin = begin_of(b);
    const size_t rows = end_of(b) - begin;
    blocks_[b].scores->run(offset(w.q, begin * head_, t), w.k, w.scores, w.product);
    softmax_forward({.dtype = t,
                     .p = w.p,
                     .inverse = w.inverse,
                     .lse = args.lse + task * shape_.seq + begin,
                     .scores = w.scores,
                     .rows = rows,
                     .cols = end_of(b),
                     .first_row = begin,
                     .scale = scale_});
    blocks_[b].context->run(w.p, w.v, w.context, w.product);
    scale_rows(t, offset(args.out, (row0 + begin) * width + column, t), width, w.context, w.inverse,
               1.0f, rows, head_);
  }
}

void Attention::backward(ThreadPool& pool, const AttentionBackward& args) const {
  const size_t bytes = BackwardScratch(*this, nullptr).bytes;
  const kernels::IeeeScope ieee;
  pool.parallel_for(
      static_cast<uint32_t>(shape_.batch * shape_.heads), [&](uint32_t i, uint32_t worker) {
        backward_head(args, i, static_cast<std::byte*>(args.scratch) + worker * bytes);
      });
}

void Attention::backward_head(const AttentionBackward& args, size_t task,
                              std::byte* scratch) const {
  const BackwardScratch w(*this, scratch);
  const DType t = shape_.dtype;
  const size_t width = shape_.width;
  const size_t seq = shape_.seq;
  const size_t row0 = task / shape_.heads * seq;
  const size_t column = task % shape_.heads * head_;
  const void* qkv = offset(args.qkv, row0 * 3 * width + column, t);
  void* dqkv = offset(args.dqkv, row0 * 3 * width + column, t);
  const void* dout = offset(args.dout, row0 * width + column, t);
  pack_rows(t, w.q, qkv, 3 * width, seq, head_);
  pack_rows(t, w.k, offset(qkv, width, t), 3 * width, seq, head_);
  pack_rows(t, w.v, offset(qkv, 2 * width, t), 3 * width, seq, head_);
  pack_rows(t, w.dout, dout, width, seq, head_);
  shift_rows(w.shift, args.lse + task * seq, seq);
  dot_rows(t, w.delta, dout, offset(args.out, row0 * width + column, t), width, seq, head_);
  // Blocks of keys: dK and dV come whole from each, dQ adds up over them in block order.
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const size_t begin = begin_of(b);
    const size_t rows = end_of(b) - begin;
    const BlockProducts& block = blocks_[b];
    const void* q = offset(w.q, begin * head_, t);
    const void* k = offset(w.k, begin * head_, t);
    const void* later_dout = offset(w.dout, begin * head_, t);
    block.scores_t->run(k, q, w.scores, w.product);
    block.scores_t->run(offset(w.v, begin * head_, t), later_dout, w.dp, w.product);
    softmax_backward({.dtype = t,
                      .p = w.p,
                      .ds = w.ds,
                      .scores = w.scores,
                      .dp = w.dp,
                      .shift = w.shift + begin,
                      .delta = w.delta + begin,
                      .rows = rows,
                      .cols = seq - begin,
                      .scale = scale_});
    block.key_gradient->run(w.p, later_dout, w.dkv, w.product);
    scale_rows(t, offset(dqkv, begin * 3 * width + 2 * width, t), 3 * width, w.dkv, nullptr, 1.0f,
               rows, head_);
    block.key_gradient->run(w.ds, q, w.dkv, w.product);
    scale_rows(t, offset(dqkv, begin * 3 * width + width, t), 3 * width, w.dkv, nullptr, scale_,
               rows, head_);
    block.query_gradient->run(w.ds, k, w.dq + begin * head_, w.product);
  }
  scale_rows(t, dqkv, 3 * width, w.dq, nullptr, scale_, seq, head_);
}

const Attention& attention(const AttentionShape& shape) {
  static auto& cache = *new std::map<AttentionShape, std::unique_ptr<Attention>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (const auto it = cache.find(shape); it != cache.end()) return *it->second;
  return *cache.emplace(shape, std::make_unique<Attention>(shape)).first->second;
}

}  // namespace strata::host
