#include "models/host/lm_head_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/host/gemm_pack.hpp"
#include "runtime/errors.hpp"

namespace strata::host {

namespace {

/// B of one strip, [width of x, strip], stays in the second-level cache.
int64_t strip_size(int64_t width, DType t) {
  const int64_t elements = (t == DType::bf16 ? 512 : 256) * 768;
  return std::clamp(elements / width / kPackColumns * kPackColumns, 2 * kPackColumns,
                    8 * kPackColumns);
}

int64_t block_size(int64_t rows, int64_t width, DType t) {
  if (t == DType::f32) {
    return std::clamp(round_up((rows + 1) / 2, kPackColumns), kPackColumns, int64_t{512});
  }
  // One block needs no fp32 sum of dwte: whichever takes less memory.
  constexpr int64_t kRows = 1024;
  return rows <= kRows + 2 * width ? rows : kRows;
}

bool take_packed(std::initializer_list<MatmulShape> shapes) {
  return std::all_of(shapes.begin(), shapes.end(), matmul_takes_packed);
}

}  // namespace

Cut::Cut(int64_t total, int64_t size, int64_t least)
    : total(total), size(size), count((total + size - 1) / size) {
  if (count > 1 && length(count - 1) < least) --count;
}

LmHeadPlan::LmHeadPlan(int64_t rows, int64_t width, int64_t vocabulary, DType dtype,
                       uint32_t threads)
    : rows(rows), width(width), vocabulary(vocabulary), dtype(dtype), threads(threads) {
  if (rows <= 0 || width <= 0 || vocabulary <= 0 || threads == 0) {
    throw ConfigError(fmt::format(
        "language-model head of {} rows, width {}, vocabulary {}, {} threads: all must be positive",
        rows, width, vocabulary, threads));
  }
  blocks = Cut(rows, block_size(rows, width, dtype));
  for (const bool last : {false, true}) {
    const int64_t n = blocks.length(last ? blocks.count - 1 : 0);
    strips[last] = Cut(n, std::min(n, strip_size(width, dtype)), kPackColumns);
  }
  chunks = Cut(vocabulary, kChunk);
  softmax_tiles = Cut(vocabulary, kSoftmaxTile).count;
  segments = std::min(kSegments, chunks.count);
  keeps_fp32_dwte = dtype == DType::bf16 && blocks.count > 1;
  for (const Cut& c : strips) {
    for (const int64_t i : {int64_t{0}, c.count - 1}) add_products(c.length(i));
    widest = std::max(widest, c.longest());
  }
  train = lay_out(true);
  evaluate = lay_out(false);
}

const LmHeadProducts& LmHeadPlan::of(int64_t strip_width) const {
  return *std::find_if(products.begin(), products.end(),
                       [=](const LmHeadProducts& p) { return p.width == strip_width; });
}

void LmHeadPlan::add_products(int64_t w) {
  for (const auto& p : products) {
    if (p.width == w) return;
  }
  const Cut softmax(vocabulary, kSoftmaxTile),
      gradient(chunks.length(chunks.count - 1), kGradientTile), row_tiles(w, kRowTile);
  const auto logits = [&](bool last) {
    return MatmulShape{.m = softmax.length(last ? softmax.count - 1 : 0),
                       .n = w,
                       .k = width,
                       .lda = width,
                       .ldb = width,
                       .ldc = w,
                       .transpose_b = true,
                       .in = dtype};
  };
  const auto dwte = [&](bool last, bool adds) {
    return MatmulShape{.m = last ? gradient.length(gradient.count - 1) : kGradientTile,
                       .n = width,
                       .k = w,
                       .lda = w,
                       .ldb = width,
                       .ldc = width,
                       .in = dtype,
                       .accumulate = adds};
  };
  const auto dx = [&](bool last, bool last_chunk, bool adds) {
    return MatmulShape{.m = row_tiles.length(last ? row_tiles.count - 1 : 0),
                       .n = width,
                       .k = chunks.length(last_chunk ? chunks.count - 1 : 0),
                       .lda = w,
                       .ldb = width,
                       .ldc = width,
                       .transpose_a = true,
                       .in = dtype,
                       .accumulate = adds};
  };
  LmHeadProducts& p = products.emplace_back();
  p.width = w;
  const auto add = [&p](MatmulShape s, bool packed) {
    if (packed) {
      s.packed_b = true;
      s.transpose_a = s.transpose_b = false;
      s.lda = s.k;
    }
    const Matmul& m = matmul(s);
    p.scratch_bytes = std::max(p.scratch_bytes, m.scratch_bytes());
    return &m;
  };
  const auto packed = [](MatmulShape s) {
    s.transpose_a = s.transpose_b = false;
    s.lda = s.k;
    return s;
  };
  p.packed_logits = take_packed({packed(logits(false)), packed(logits(true))});
  p.packed_dwte = take_packed({packed(dwte(false, false)), packed(dwte(true, false))});
  p.packed_dx = true;
  for (const int i : {0, 1, 2, 3}) {
    p.packed_dx = p.packed_dx && take_packed({packed(dx(i & 1, i & 2, false))});
  }
  for (const bool last : {false, true}) {
    p.logits[last] = add(logits(last), p.packed_logits);
    for (const bool adds : {false, true}) {
      p.dwte[last][adds] = add(dwte(last, adds), p.packed_dwte);
      for (const bool last_chunk : {false, true}) {
        p.dx[last][last_chunk][adds] = add(dx(last, last_chunk, adds), p.packed_dx);
      }
    }
  }
}

LmHeadPlan::Layout LmHeadPlan::lay_out(bool backward) const {
  Layout l{};
  size_t at = 0;
  const auto take = [&at](int64_t elements, size_t bytes) {
    const size_t begin = at;
    at = (at + static_cast<size_t>(elements) * bytes + 63) / 64 * 64;
    return begin;
  };
  const size_t element = size_of(dtype), fp32 = sizeof(float);
  const int64_t r = blocks.longest();
  // Strips are padded to whole blocks of columns or rows when packed.
  const int64_t padded = r + std::max(strips[0].count, strips[1].count) * kPackColumns;
  const int64_t wide = round_up(width, kPackColumns);
  l.xt_packed = take(padded * wide, element);
  l.maxima = take(softmax_tiles * r, fp32);
  l.sums = take(softmax_tiles * r, fp32);
  l.target_logits = take(r, fp32);
  l.log_sums = take(r, fp32);
  l.weights = take(r, fp32);
  l.target_gradients = take(r, fp32);
  l.losses = take(r, sizeof(double));
  if (backward) {
    l.x_packed = take(padded * wide, element);
    l.exponentials = take(r * vocabulary, element);
    l.dx_parts = take(segments * r * width, fp32);
    l.dwte_sum = take(keeps_fp32_dwte ? vocabulary * width : 0, fp32);
  }
  l.workers = at;
  at = 0;
  size_t scratch = 0;
  for (const auto& p : products) scratch = std::max(scratch, p.scratch_bytes);
  l.product = take(static_cast<int64_t>(scratch), 1);
  l.tile = take(std::max(kSoftmaxTile * widest, backward ? kGradientTile * width : 0), fp32);
  l.factors = take(widest, fp32);
  l.gradient = take((backward ? kGradientTile : kSoftmaxTile) * widest, element);
  if (backward) {
    l.transposed = take(kChunk * r, element);
    l.wte_packed = take(kChunk * wide, element);
  }
  l.worker_bytes = at;
  l.total = l.workers + threads * l.worker_bytes;
  return l;
}

}  // namespace strata::host
