// interim
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "models/host/matmul.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {
struct TileGemm {
  MatmulShape s;
  struct Tile { int64_t r, c; const Matmul* mm; };
  std::vector<Tile> tiles;
  size_t scratch = 0;
  explicit TileGemm(const MatmulShape& shape) : s(shape) {
    int64_t tm = 256, tn = 768;
    auto count = [&] { return ((s.m + tm - 1) / tm) * ((s.n + tn - 1) / tn); };
    while (count() < 8 && (tm > 32 || tn > 64)) { if (tn > 2 * tm && tn > 64) tn /= 2; else if (tm > 32) tm /= 2; else tn /= 2; }
    for (int64_t r = 0; r < s.m; r += tm) for (int64_t c = 0; c < s.n; c += tn) {
      MatmulShape t = s; t.m = std::min(tm, s.m - r); t.n = std::min(tn, s.n - c);
      tiles.push_back({r, c, &matmul(t)}); scratch = std::max(scratch, tiles.back().mm->scratch_bytes());
    }
    scratch = (scratch + 63) / 64 * 64;
  }
  size_t scratch_bytes(uint32_t threads) const { return scratch * threads; }
  void run(ThreadPool& pool, const void* a, const void* b, void* c, std::byte* ws) const {
    const size_t e = size_of(s.in), o = size_of(s.out);
    pool.parallel_for(static_cast<uint32_t>(tiles.size()), [&](uint32_t i, uint32_t w) {
      const Tile& t = tiles[i];
      const auto* pa = static_cast<const std::byte*>(a) + (s.transpose_a ? t.r : t.r * s.lda) * e;
      const auto* pb = static_cast<const std::byte*>(b) + (s.transpose_b ? t.c * s.ldb : t.c) * e;
      t.mm->run(pa, pb, static_cast<std::byte*>(c) + (t.r * s.ldc + t.c) * o, ws + w * scratch);
    });
  }
};
}  // namespace strata::host
