#include <algorithm>
#include <map>
#include <optional>

#include "models/host/gemm.hpp"
#include "models/host/gemm_pack.hpp"
#include "models/host/gemm_rate.hpp"

namespace strata::host {

namespace {

/// A library call and byte offsets of its operands.
struct Part {
  const Matmul* matmul;
  size_t a, b, c;
};

/// One task of the pool: a tile of C, its parts in order of k.
using Tile = std::vector<Part>;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Large tiles of the whole depth, but enough of them to keep every thread busy.
GemmTiles plain_tiles(const GemmProduct& p) {
  constexpr int64_t kLeastTiles = 8;
  GemmTiles t{.m = 256, .n = 768, .k = p.k};
  while (ceil_div(p.m, t.m) * ceil_div(p.n, t.n) < kLeastTiles && (t.m > 32 || t.n > 64)) {
    (t.m > 32 && (t.m >= t.n || t.n <= 64) ? t.m : t.n) /= 2;
  }
  return t;
}

class PoolGemmRate final : public GemmRate {
 public:
  PoolGemmRate(std::vector<GemmProduct> products, DType dtype, uint32_t threads)
      : GemmRate(std::move(products), dtype), pool_(threads) {}

 private:
  struct Prepared {
    std::vector<Tile> tiles;
    size_t scratch = 0;  // of one thread
  };

  std::optional<Needs> prepare(size_t i, GemmLayout layout) override {
    const GemmProduct& p = products()[i];
    const bool packs_a = layout == GemmLayout::packed_ab;
    const bool packs_b = layout != GemmLayout::plain;
    const GemmTiles t = packs_b ? choose_tiles({.m = p.m,
                                                .n = p.n,
                                                .k = p.k,
                                                .transpose_a = p.transpose_a,
                                                .transpose_b = p.transpose_b,
                                                .in = dtype(),
                                                .out = dtype()})
                                : plain_tiles(p);
    if (packs_b != t.packed || (packs_a && !p.transpose_a && t.k >= p.k)) return std::nullopt;
    // As in `Gemm`: the kernels take packed columns 64 at a time, a narrower rest joins the last.
    int64_t columns = ceil_div(p.n, t.n);
    if (packs_b && columns > 1 && p.n % t.n != 0 && p.n % t.n < kPackColumns) --columns;

    Prepared ready;
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t width = j + 1 < columns ? t.n : p.n - j * t.n;
      for (int64_t row = 0; row < p.m; row += t.m) {
        Tile tile;
        for (int64_t k = 0; k < p.k; k += t.k) {
          const int64_t height = std::min(t.m, p.m - row), depth = std::min(t.k, p.k - k);
          const auto part = make_part(p, layout, {row, j * t.n, k}, {height, width, depth});
          if (!part) return std::nullopt;
          ready.scratch = std::max(ready.scratch, (part->matmul->scratch_bytes() + 63) / 64 * 64);
          tile.push_back(*part);
        }
        ready.tiles.push_back(std::move(tile));
      }
    }
    const size_t size = size_of(dtype());
    Needs needs;
    needs.a = size * p.m * p.k;
    needs.b = packs_b ? packed_b_bytes(p.k, p.n, dtype()) : size * p.k * p.n;
    needs.c = size * p.m * p.n;
    needs.scratch = ready.scratch * pool_.threads();
    prepared_[{i, layout}] = std::move(ready);
    return needs;
  }

  /// Row, column and depth.
  struct Index {
    int64_t m, n, k;
  };

  std::optional<Part> make_part(const GemmProduct& p, GemmLayout layout, const Index& from,
                                const Index& n) const {
    const size_t size = size_of(dtype());
    MatmulShape s{.m = n.m, .n = n.n, .k = n.k, .in = dtype(), .out = dtype()};
    s.accumulate = from.k > 0;
    Part part{};
    if (layout == GemmLayout::packed_ab) {  // a matrix for each step of k
      s.lda = n.k;
      part.a = size * (from.k * p.m + from.m * n.k);
    } else {
      s.transpose_a = p.transpose_a;
      s.lda = p.transpose_a ? p.m : p.k;
      part.a = size * (p.transpose_a ? from.k * p.m + from.m : from.m * p.k + from.k);
    }
    if (layout != GemmLayout::plain) {
      s.packed_b = true;
      s.ldb = n.n;
      s.ldc = n.n;  // the kernels for packed B want a dense C: tiles lie one after another
      part.c = size * (from.m * p.n + n.m * from.n);
      part.b = packed_b_bytes(from.k, p.n, dtype()) + packed_b_bytes(n.k, from.n, dtype());
      if (!matmul_takes_packed(s)) return std::nullopt;
    } else {
      s.transpose_b = p.transpose_b;
      s.ldb = p.transpose_b ? p.k : p.n;
      s.ldc = p.n;
      part.c = size * (from.m * p.n + from.n);
      part.b = size * (p.transpose_b ? from.n * p.k + from.k : from.k * p.n + from.n);
    }
    part.matmul = &matmul(s);
    return part;
  }

  void run(size_t i, GemmLayout layout, const Memory& m) override {
    const Prepared& p = prepared_.at({i, layout});
    const ThreadPool::Turn turn(pool_);
    pool_.parallel_for(static_cast<uint32_t>(p.tiles.size()), [&](uint32_t tile, uint32_t worker) {
      for (const Part& part : p.tiles[tile]) {
        part.matmul->run(m.a + part.a, m.b + part.b, m.c + part.c, m.scratch + worker * p.scratch);
      }
    });
  }

  ThreadPool pool_;
  std::map<std::pair<size_t, GemmLayout>, Prepared> prepared_;
};

}  // namespace

std::unique_ptr<GemmRate> make_pool_gemm_rate(std::vector<GemmProduct> products, DType dtype,
                                              uint32_t threads) {
  return std::make_unique<PoolGemmRate>(std::move(products), dtype, threads);
}

}  // namespace strata::host
