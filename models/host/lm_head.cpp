#include "models/host/lm_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/host/gemm_epilogue.hpp"
#include "models/host/gemm_pack.hpp"
#include "models/host/lm_head_plan.hpp"
#include "models/host/lm_head_softmax.hpp"
#include "runtime/errors.hpp"

namespace strata::host {

namespace {

/// One call: where things lie, and the phases of a block of rows.
class Pass {
 public:
  Pass(const LmHeadPlan& plan, const LmHeadArgs& args, ThreadPool& pool, bool backward)
      : p_(plan),
        a_(args),
        pool_(pool),
        backward_(backward),
        l_(backward ? plan.train : plan.evaluate),
        element_(static_cast<int64_t>(size_of(plan.dtype))) {}

  double run() {
    check();
    double loss = 0;
    for (int64_t b = 0; b < p_.blocks.count; ++b) {
      begin_ = p_.blocks.begin(b);
      rows_ = p_.blocks.length(b);
      strips_ = &p_.strips_of(b);
      first_ = b == 0;
      last_ = b + 1 == p_.blocks.count;
      pack_x();
      pool_.parallel_for(static_cast<uint32_t>(p_.chunks.count),
                         [&](uint32_t c, uint32_t w) { forward(c, w); });
      join();
      loss += block_loss();
      if (!backward_) continue;
      pool_.parallel_for(static_cast<uint32_t>(p_.segments),
                         [&](uint32_t s, uint32_t w) { backward(s, w); });
      add_dx_parts();
    }
    return loss;
  }

 private:
  void check() const {
    if (pool_.threads() > p_.threads) {
      throw StateError(fmt::format("language-model head: made for {} threads, run with {}",
                                   p_.threads, pool_.threads()));
    }
    for (int64_t r = 0; r < p_.rows; ++r) {
      if (a_.targets[r] < p_.vocabulary) continue;
      throw StateError(
          fmt::format("language-model head: target {} of row {} is not below the "
                      "vocabulary of {}",
                      a_.targets[r], r, p_.vocabulary));
    }
  }

  std::byte* shared(size_t offset, int64_t elements = 0) const {
    return a_.scratch + offset + elements * element_;
  }
  float* floats(size_t offset, int64_t index = 0) const {
    return reinterpret_cast<float*>(a_.scratch + offset) + index;
  }
  double* losses() const { return reinterpret_cast<double*>(a_.scratch + l_.losses); }
  std::byte* own(uint32_t worker, size_t offset) const {
    return a_.scratch + l_.workers + worker * l_.worker_bytes + offset;
  }
  const std::byte* wte(int64_t v) const {
    return static_cast<const std::byte*>(a_.wte) + v * p_.width * element_;
  }
  /// Row `r` of the block.
  const std::byte* x(int64_t r) const {
    return static_cast<const std::byte*>(a_.x) + (begin_ + r) * p_.width * element_;
  }
  const int32_t* targets(int64_t r) const { return a_.targets + begin_ + r; }

  // Packed strips follow each other; each is padded, so the padding of those before adds up.
  std::byte* xt_packed(int64_t strip) const {
    return shared(l_.xt_packed, (strips_->begin(strip) + strip * kPackColumns) *
                                    round_up(p_.width, kPackColumns));
  }
  std::byte* x_packed(int64_t strip) const {
    return shared(l_.x_packed, (strips_->begin(strip) + strip * kPackColumns) *
                                   round_up(p_.width, kPackColumns));
  }
  /// Row v of a strip's exponentials, [vocabulary][strip width].
  std::byte* exponentials(int64_t strip, int64_t v) const {
    return shared(l_.exponentials,
                  strips_->begin(strip) * p_.vocabulary + v * strips_->length(strip));
  }

  void pack_x() {
    pool_.parallel_for(static_cast<uint32_t>(2 * strips_->count), [&](uint32_t task) {
      const int64_t s = task / 2;
      const int64_t w = strips_->length(s);
      const LmHeadProducts& products = p_.of(w);
      const std::byte* const rows = x(strips_->begin(s));
      if (task % 2 == 0 && products.packed_logits) {
        pack_b(rows, p_.width, true, p_.width, w, p_.dtype, xt_packed(s),
               round_up(p_.width, pack_depth(p_.dtype)));
      }
      if (task % 2 == 1 && products.packed_dwte && backward_) {
        pack_b(rows, p_.width, false, w, p_.width, p_.dtype, x_packed(s),
               round_up(w, pack_depth(p_.dtype)));
      }
    });
  }

  /// Exponentials of a chunk of the vocabulary, and the logits of targets in it.
  void forward(int64_t chunk, uint32_t worker) {
    const Cut tiles(p_.chunks.length(chunk), LmHeadPlan::kSoftmaxTile);
    auto* const tile = reinterpret_cast<float*>(own(worker, l_.tile));
    for (int64_t s = 0; s < strips_->count; ++s) {
      const int64_t w = strips_->length(s);
      const int64_t r = strips_->begin(s);
      const LmHeadProducts& products = p_.of(w);
      for (int64_t i = 0; i < tiles.count; ++i) {
        const int64_t v = p_.chunks.begin(chunk) + tiles.begin(i);
        const int64_t n = tiles.length(i);
        const int64_t at = v / LmHeadPlan::kSoftmaxTile * rows_ + r;
        products.logits[v + n == p_.vocabulary]->run(
            wte(v), products.packed_logits ? xt_packed(s) : x(r), tile, own(worker, l_.product));
        host::exponentials(tile, n, w, p_.dtype,
                           backward_ ? exponentials(s, v) : own(worker, l_.gradient),
                           floats(l_.maxima, at), floats(l_.sums, at));
        for (int64_t j = 0; j < w; ++j) {
          const int64_t t = *targets(r + j) - v;
          if (t >= 0 && t < n) *floats(l_.target_logits, r + j) = tile[t * w + j];
        }
      }
    }
  }

  /// log_sums = log of the sum of exp(logits), and what backward needs of each row.
  void join() {
    pool_.parallel_for(static_cast<uint32_t>(strips_->count), [&](uint32_t s) {
      const int64_t begin = strips_->begin(s);
      const int64_t end = begin + strips_->length(s);
      float* const maximum = floats(l_.log_sums);
      float* const sum = floats(l_.weights);
      join_exponentials(floats(l_.maxima, begin), floats(l_.sums, begin), p_.softmax_tiles, rows_,
                        end - begin, maximum + begin, sum + begin);
      for (int64_t r = begin; r < end; ++r) {
        const bool counts = *targets(r) >= 0;
        const double log_sum = maximum[r] + std::log(static_cast<double>(sum[r]));
        const double target = *floats(l_.target_logits, r);
        *floats(l_.log_sums, r) = static_cast<float>(log_sum);
        *floats(l_.weights, r) = counts ? a_.scale : 0.0f;
        *floats(l_.target_gradients, r) =
            counts ? static_cast<float>(a_.scale * std::expm1(target - log_sum)) : 0.0f;
        losses()[r] = counts ? log_sum - target : 0.0;
      }
    });
  }

  double block_loss() const {
    double sum = 0;
    for (int64_t r = 0; r < rows_; ++r) sum += losses()[r];
    return sum;
  }

  /// Rows [v, v + n) of the gradient of the logits of a strip, from exponentials and row factors.
  void gradient_rows(int64_t s, int64_t v, int64_t n, std::byte* out, float* factors) const {
    const int64_t w = strips_->length(s);
    const int64_t r = strips_->begin(s);
    const Cut tiles(n, LmHeadPlan::kSoftmaxTile);
    for (int64_t i = 0; i < tiles.count; ++i) {
      const int64_t from = v + tiles.begin(i);
      const float* const maxima = floats(l_.maxima, from / LmHeadPlan::kSoftmaxTile * rows_ + r);
      softmax_factors(maxima, floats(l_.log_sums, r), floats(l_.weights, r), w, factors);
      scale_columns(exponentials(s, from), tiles.length(i), w, p_.dtype, factors,
                    out + tiles.begin(i) * w * element_);
    }
    for (int64_t j = 0; j < w; ++j) {
      const int64_t t = *targets(r + j) - v;
      if (t < 0 || t >= n) continue;
      const float g = *floats(l_.target_gradients, r + j);
      if (p_.dtype == DType::f32) {
        reinterpret_cast<float*>(out)[t * w + j] = g;
      } else {
        reinterpret_cast<Bf16*>(out)[t * w + j] = to_bf16(g);
      }
    }
  }

  /// dwte of a segment of the vocabulary, and the segment's part of dx.
  void backward(int64_t segment, uint32_t worker) const {
    const int64_t first_chunk = p_.segment_begin(segment);
    for (int64_t c = first_chunk; c < p_.segment_begin(segment + 1); ++c) {
      const int64_t v = p_.chunks.begin(c);
      const int64_t n = p_.chunks.length(c);
      const Cut tiles(n, LmHeadPlan::kGradientTile);
      for (int64_t i = 0; i < tiles.count; ++i) {
        dwte_rows(v, n, tiles.begin(i), tiles.length(i), worker);
      }
      dx_part(segment, v, n, c > first_chunk, worker);
    }
  }

  /// Where a strip of a chunk's gradient is kept for dx: transposed for a packed product.
  std::byte* kept_gradient(int64_t s, uint32_t worker) const {
    return own(worker, l_.transposed) + strips_->begin(s) * LmHeadPlan::kChunk * element_;
  }

  /// Rows [v + from, v + from + n) of dwte, in a chunk of `depth` rows at v.
  void dwte_rows(int64_t v, int64_t depth, int64_t from, int64_t n, uint32_t worker) const {
    const int64_t row = v + from;
    float* sum = reinterpret_cast<float*>(own(worker, l_.tile));
    if (p_.keeps_fp32_dwte) sum = floats(l_.dwte_sum, row * p_.width);
    if (p_.dtype == DType::f32) sum = static_cast<float*>(a_.dwte) + row * p_.width;
    for (int64_t s = 0; s < strips_->count; ++s) {
      const int64_t w = strips_->length(s);
      const LmHeadProducts& products = p_.of(w);
      std::byte* gradient = own(worker, l_.gradient);
      if (!products.packed_dx) gradient = kept_gradient(s, worker) + from * w * element_;
      gradient_rows(s, row, n, gradient, reinterpret_cast<float*>(own(worker, l_.factors)));
      products.dwte[row + n == p_.vocabulary][!first_ || s > 0]->run(
          gradient, products.packed_dwte ? x_packed(s) : x(strips_->begin(s)), sum,
          own(worker, l_.product));
      if (products.packed_dx) {
        transpose_a(gradient, w, w, n, p_.dtype, kept_gradient(s, worker) + from * element_, depth);
      }
    }
    if (p_.dtype == DType::f32 || !last_) return;
    write_tile({.dtype = DType::bf16,
                .rows = n,
                .cols = p_.width,
                .x = sum,
                .ldx = p_.width,
                .c = static_cast<std::byte*>(a_.dwte) + row * p_.width * element_,
                .ldc = p_.width,
                .stream_c = true});
  }

  /// Adds what the chunk of n rows of wte at v contributes to a segment's part of dx.
  void dx_part(int64_t segment, int64_t v, int64_t n, bool adds, uint32_t worker) const {
    std::byte* const packed = own(worker, l_.wte_packed);
    pack_b(wte(v), p_.width, false, n, p_.width, p_.dtype, packed,
           round_up(n, pack_depth(p_.dtype)));
    for (int64_t s = 0; s < strips_->count; ++s) {
      const LmHeadProducts& products = p_.of(strips_->length(s));
      const Cut tiles(strips_->length(s), LmHeadPlan::kRowTile);
      for (int64_t i = 0; i < tiles.count; ++i) {
        const int64_t a = tiles.begin(i) * (products.packed_dx ? n : 1);
        products.dx[i + 1 == tiles.count][v + n == p_.vocabulary][adds]->run(
            kept_gradient(s, worker) + a * element_, products.packed_dx ? packed : wte(v),
            floats(l_.dx_parts, (segment * rows_ + strips_->begin(s) + tiles.begin(i)) * p_.width),
            own(worker, l_.product));
      }
    }
  }

  void add_dx_parts() const {
    const Cut pieces(rows_, LmHeadPlan::kPieceRows);
    pool_.parallel_for(static_cast<uint32_t>(pieces.count), [&](uint32_t i) {
      const int64_t at = pieces.begin(i) * p_.width;
      sum_parts(floats(l_.dx_parts, at), p_.segments, rows_ * p_.width, pieces.length(i) * p_.width,
                p_.dtype, static_cast<std::byte*>(a_.dx) + (begin_ * p_.width + at) * element_);
    });
  }

  const LmHeadPlan& p_;
  const LmHeadArgs& a_;
  ThreadPool& pool_;
  const bool backward_;
  const LmHeadPlan::Layout& l_;
  const int64_t element_;
  // The block of rows at work.
  int64_t begin_ = 0, rows_ = 0;
  const Cut* strips_ = nullptr;
  bool first_ = true, last_ = true;
};

}  // namespace

LmHead::LmHead(int64_t rows, int64_t width, int64_t vocabulary, DType dtype, uint32_t threads)
    : plan_(std::make_unique<const LmHeadPlan>(rows, width, vocabulary, dtype, threads)) {}
LmHead::~LmHead() = default;
LmHead::LmHead(LmHead&&) noexcept = default;
LmHead& LmHead::operator=(LmHead&&) noexcept = default;

size_t LmHead::scratch_bytes() const noexcept { return plan_->train.total; }
size_t LmHead::evaluate_scratch_bytes() const noexcept { return plan_->evaluate.total; }
int64_t LmHead::block_rows() const noexcept { return plan_->blocks.longest(); }

void LmHead::run(ThreadPool& pool, const LmHeadArgs& args) const {
  *args.loss_sum = Pass(*plan_, args, pool, true).run();
}

void LmHead::evaluate(ThreadPool& pool, const LmHeadArgs& args) const {
  *args.loss_sum = Pass(*plan_, args, pool, false).run();
}

}  // namespace strata::host
