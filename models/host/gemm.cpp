#include "models/host/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "models/host/gemm_pack.hpp"
#include "runtime/errors.hpp"

namespace strata::host {

namespace {

/// Rows of A, and rows of B as stored, that one thread rearranges at a time.
constexpr int64_t kPieceRows = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

size_t to_line(size_t bytes) {
  constexpr size_t kLine = 64;
  return (bytes + kLine - 1) / kLine * kLine;
}

/// Length of the i-th of `count` tiles of `tile` each over `total`; the last takes what is left.
int64_t length(int64_t i, int64_t count, int64_t tile, int64_t total) {
  return i + 1 < count ? tile : total - (count - 1) * tile;
}

GemmShape checked(GemmShape s) {
  if (s.lda == 0) s.lda = s.transpose_a ? s.m : s.k;
  if (s.ldb == 0) s.ldb = s.transpose_b ? s.k : s.n;
  if (s.ldc == 0) s.ldc = s.n;
  const bool ok = s.m > 0 && s.n > 0 && s.k > 0 && s.lda >= (s.transpose_a ? s.m : s.k) &&
                  s.ldb >= (s.transpose_b ? s.k : s.n) && s.ldc >= s.n &&
                  !(s.in == DType::f32 && s.out == DType::bf16);
  if (!ok) {
    throw ConfigError(fmt::format(
        "gemm {}x{}x{} (m, n, k), ld {} {} {}, {} -> {}: sizes must be positive, leading "
        "dimensions cover a row, and fp32 operands give an fp32 result",
        s.m, s.n, s.k, s.lda, s.ldb, s.ldc, name_of(s.in), name_of(s.out)));
  }
  return s;
}

GemmTiles plain_tiles(const GemmShape& s) {
  GemmTiles t{.m = 256, .n = 768, .k = s.k, .packed = false};
  if (s.in == DType::bf16 && matmul_widens_bf16()) t.k = std::min<int64_t>(t.k, 512);
  if (s.m >= kPieceRows) {
    // In kernels without packed operands the bits of a row depend on how many there are, so tiles
    // must not depend on how many more the caller has.
    t.m = kPieceRows;
    t.n = 256;
    return t;
  }
  while (ceil_div(s.m, t.m) * ceil_div(s.n, t.n) < 8 && (t.m > 16 || t.n > 48)) {
    (t.m > 16 && 4 * t.m > t.n ? t.m : t.n) /= 2;
  }
  return t;
}

}  // namespace

GemmTiles choose_tiles(const GemmShape& s) {
  if (s.m < 64 || s.n < kPackColumns || s.k < 64) return plain_tiles(s);
  // A tile's panel of B stays in the second-level cache while rows of A stream past.
  const int64_t panel = s.in == DType::bf16 ? 512 * 768 : 256 * 768;
  GemmTiles t{.m = 64, .packed = true};
  t.k = round_up(ceil_div(s.k, ceil_div(s.k, 4096)), kPieceRows);
  t.n = std::clamp(panel / t.k / kPackColumns * kPackColumns, 2 * kPackColumns, 12 * kPackColumns);
  // Reading a small B again for each row of tiles costs less than writing a large A once more.
  t.local_a = s.transpose_a && s.m > s.n;
  if (t.local_a) t.m = 128;
  return t;
}

Gemm::Gemm(const GemmShape& shape, const GemmTiles& tiles) : shape_(checked(shape)) {
  if (!prepare(tiles)) prepare(plain_tiles(shape_));
}

bool Gemm::prepare(const GemmTiles& tiles) {
  const GemmShape& s = shape_;
  tiles_ = tiles;
  if (tiles_.packed) {
    tiles_.n = round_up(tiles_.n, kPackColumns);
    tiles_.k = round_up(tiles_.k, kPieceRows);
  } else if (tiles_.k == 0) {
    tiles_.k = s.k;
  }
  tiles_m_ = ceil_div(s.m, tiles_.m);
  tiles_n_ = ceil_div(s.n, tiles_.n);
  tiles_k_ = ceil_div(s.k, tiles_.k);
  // The kernels take packed columns 64 at a time, so a narrower rest joins the tile before it.
  const int64_t rest = s.n % tiles_.n;
  if (tiles_.packed && tiles_n_ > 1 && rest != 0 && rest < kPackColumns) --tiles_n_;
  // They also need dense rows of A.
  packed_a_ = tiles_.packed && (s.transpose_a || tiles_k_ > 1 || s.lda != s.k);
  if (!find_products()) return false;

  packed_b_bytes_ = packed_a_bytes_ = 0;
  pieces_b_ = pieces_a_ = 0;
  if (tiles_.packed) {
    packed_b_bytes_ = to_line(strata::host::packed_b_bytes(s.k, s.n, s.in));
    pieces_b_ = s.transpose_b ? ceil_div(s.n, kPieceRows) * tiles_k_ : ceil_div(s.k, kPieceRows);
  }
  const int64_t widest = std::max(tiles_.n, length(tiles_n_ - 1, tiles_n_, tiles_.n, s.n));
  const int64_t tallest = std::min(tiles_.m, s.m);
  tile_bytes_ = to_line(static_cast<size_t>(tallest * widest) * sizeof(float));
  worker_bytes_ = product_bytes_ + tile_bytes_;
  tiles_.local_a = tiles_.local_a && packed_a_;
  if (tiles_.local_a) {
    worker_bytes_ += to_line(static_cast<size_t>(tallest * s.k) * size_of(s.in));
  } else if (packed_a_) {
    packed_a_bytes_ = to_line(static_cast<size_t>(s.m * s.k) * size_of(s.in));
    pieces_a_ = ceil_div(s.m, kPieceRows) * tiles_k_;
  }
  return true;
}

bool Gemm::find_products() {
  const GemmShape& s = shape_;
  products_.fill(nullptr);
  product_bytes_ = 0;
  // One for each combination of first or last tile in a dimension and any other.
  for (const int64_t i : {tiles_m_ - 1, int64_t{0}}) {
    for (const int64_t j : {tiles_n_ - 1, int64_t{0}}) {
      for (const int64_t c : {tiles_k_ - 1, int64_t{1}, int64_t{0}}) {
        if (c >= tiles_k_) continue;
        MatmulShape p{.m = length(i, tiles_m_, tiles_.m, s.m),
                      .n = length(j, tiles_n_, tiles_.n, s.n),
                      .k = length(c, tiles_k_, tiles_.k, s.k),
                      .lda = s.lda,
                      .ldb = s.ldb,
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b,
                      .in = s.in,
                      .out = DType::f32,
                      .accumulate = c > 0};
        p.ldc = p.n;
        if (tiles_.packed) {
          p.transpose_a = p.transpose_b = false;
          p.packed_b = true;
          p.lda = p.k;
          p.ldb = p.n;
          if (!matmul_takes_packed(p)) return false;
        }
        const Matmul& product = matmul(p);
        products_[product_index(i, j, c)] = &product;
        product_bytes_ = std::max(product_bytes_, to_line(product.scratch_bytes()));
      }
    }
  }
  return true;
}

size_t Gemm::product_index(int64_t i, int64_t j, int64_t c) const noexcept {
  const size_t last_m = i + 1 == tiles_m_;
  const size_t last_n = j + 1 == tiles_n_;
  const size_t last_k = c + 1 == tiles_k_;
  const size_t first_k = c == 0;
  return 8 * last_m + 4 * last_n + 2 * last_k + first_k;
}

struct Gemm::Call {
  const GemmArgs& args;
  std::byte* packed_b;
  std::byte* packed_a;
  std::byte* workers;
};

void Gemm::run(ThreadPool& pool, const GemmArgs& args, std::span<std::byte> scratch) const {
  if (scratch.size() < scratch_bytes(pool.threads())) {
    throw StateError(fmt::format("gemm {}x{}x{}: {} bytes of scratch for {} threads, {} needed",
                                 shape_.m, shape_.n, shape_.k, scratch.size(), pool.threads(),
                                 scratch_bytes(pool.threads())));
  }
  const Call call{args, scratch.data(), scratch.data() + packed_b_bytes_,
                  scratch.data() + packed_b_bytes_ + packed_a_bytes_};
  const GemmShape& s = shape_;
  pool.parallel_for(static_cast<uint32_t>(pieces_b_ + pieces_a_), [&](uint32_t piece) {
    if (piece < pieces_b_) return pack_b_piece(call, piece);
    const int64_t c = (piece - pieces_b_) % tiles_k_;
    const int64_t i = (piece - pieces_b_) / tiles_k_ * kPieceRows;
    pack_a_rows(call, c, i, std::min(kPieceRows, s.m - i), packed_a_at(call, c, i));
  });
  if (!tiles_.local_a) {
    pool.parallel_for(static_cast<uint32_t>(tiles_m_ * tiles_n_),
                      [&](uint32_t tile, uint32_t worker) {
                        multiply(call, tile % tiles_m_, tile / tiles_m_, worker);
                      });
    return;
  }
  pool.parallel_for(static_cast<uint32_t>(tiles_m_), [&](uint32_t i, uint32_t worker) {
    const int64_t rows = length(i, tiles_m_, tiles_.m, s.m);
    for (int64_t c = 0; c < tiles_k_; ++c) {
      pack_a_rows(call, c, i * tiles_.m, rows, local_a_at(call, c, rows, worker));
    }
    for (int64_t j = 0; j < tiles_n_; ++j) multiply(call, i, j, worker);
  });
}

/// Where chunk c of k of the packed B begins, from `column` (a multiple of 64) on: chunks follow
/// each other, blocks of 64 columns within them.
std::byte* Gemm::packed_b_at(const Call& call, int64_t c, int64_t column) const {
  const int64_t begin = c * tiles_.k;
  const int64_t depth = round_up(length(c, tiles_k_, tiles_.k, shape_.k), pack_depth(shape_.in));
  return call.packed_b + (begin * round_up(shape_.n, kPackColumns) + depth * column) *
                             static_cast<int64_t>(size_of(shape_.in));
}

/// Where row i of chunk c of k of the packed A begins: chunks follow each other, each [m][depth].
std::byte* Gemm::packed_a_at(const Call& call, int64_t c, int64_t i) const {
  return call.packed_a + (c * tiles_.k * shape_.m + i * length(c, tiles_k_, tiles_.k, shape_.k)) *
                             static_cast<int64_t>(size_of(shape_.in));
}

/// Where chunk c of a worker's own rows of A begins.
std::byte* Gemm::local_a_at(const Call& call, int64_t c, int64_t rows, uint32_t worker) const {
  return call.workers + worker * worker_bytes_ + product_bytes_ + tile_bytes_ +
         c * tiles_.k * rows * static_cast<int64_t>(size_of(shape_.in));
}

void Gemm::pack_b_piece(const Call& call, int64_t piece) const {
  const GemmShape& s = shape_;
  const auto element = static_cast<int64_t>(size_of(s.in));
  const auto* const b = static_cast<const std::byte*>(call.args.b);
  int64_t c, column, columns, row, rows;
  if (s.transpose_b) {
    c = piece % tiles_k_;
    column = piece / tiles_k_ * kPieceRows;
    columns = std::min(kPieceRows, s.n - column);
    row = c * tiles_.k;
    rows = length(c, tiles_k_, tiles_.k, s.k);
  } else {
    column = 0;
    columns = s.n;
    row = piece * kPieceRows;
    rows = std::min(kPieceRows, s.k - row);
    c = row / tiles_.k;
  }
  const int64_t depth = round_up(length(c, tiles_k_, tiles_.k, s.k), pack_depth(s.in));
  const int64_t from = s.transpose_b ? column * s.ldb + row : row * s.ldb + column;
  std::byte* const to =
      packed_b_at(call, c, column) + (row - c * tiles_.k) * kPackColumns * element;
  pack_b(b + from * element, s.ldb, s.transpose_b, rows, columns, s.in, to, depth);
}

/// Rows [i, i + rows) of chunk c of k, dense.
void Gemm::pack_a_rows(const Call& call, int64_t c, int64_t i, int64_t rows, std::byte* to) const {
  const GemmShape& s = shape_;
  const auto element = static_cast<int64_t>(size_of(s.in));
  const auto* const a = static_cast<const std::byte*>(call.args.a);
  const int64_t k0 = c * tiles_.k;
  const int64_t depth = length(c, tiles_k_, tiles_.k, s.k);
  if (s.transpose_a) {
    transpose_a(a + (k0 * s.lda + i) * element, s.lda, rows, depth, s.in, to, depth);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * depth * element, a + ((i + r) * s.lda + k0) * element,
                static_cast<size_t>(depth * element));
  }
}

void Gemm::multiply(const Call& call, int64_t i, int64_t j, uint32_t worker) const {
  const GemmShape& s = shape_;
  const auto element = static_cast<int64_t>(size_of(s.in));
  const int64_t row = i * tiles_.m;
  const int64_t column = j * tiles_.n;
  const int64_t rows = length(i, tiles_m_, tiles_.m, s.m);
  const int64_t cols = length(j, tiles_n_, tiles_.n, s.n);
  std::byte* const scratch = call.workers + worker * worker_bytes_;
  auto* const x = reinterpret_cast<float*>(scratch + product_bytes_);
  for (int64_t c = 0; c < tiles_k_; ++c) {
    const int64_t k0 = c * tiles_.k;
    const auto* a = static_cast<const std::byte*>(call.args.a) +
                    (s.transpose_a ? k0 * s.lda + row : row * s.lda + k0) * element;
    const auto* b = static_cast<const std::byte*>(call.args.b) +
                    (s.transpose_b ? column * s.ldb + k0 : k0 * s.ldb + column) * element;
    if (packed_a_) {
      a = tiles_.local_a ? local_a_at(call, c, rows, worker) : packed_a_at(call, c, row);
    }
    if (tiles_.packed) b = packed_b_at(call, c, column);
    products_[product_index(i, j, c)]->run(a, b, x, scratch);
  }

  const int64_t out = static_cast<int64_t>(size_of(s.out));
  const auto at = [&](const void* p, int64_t offset) -> const std::byte* {
    return p == nullptr ? nullptr : static_cast<const std::byte*>(p) + offset * out;
  };
  const int64_t corner = row * s.ldc + column;
  write_tile({.epilogue = s.epilogue,
              .dtype = s.out,
              .rows = rows,
              .cols = cols,
              .x = x,
              .ldx = cols,
              .c = const_cast<std::byte*>(at(call.args.c, corner)),
              .ldc = s.ldc,
              .bias = at(call.args.bias, column),
              .residual = at(call.args.residual, corner),
              .saved = at(call.args.saved, corner),
              .activation = const_cast<std::byte*>(at(call.args.activation, corner)),
              .stream_c = s.stream_c});
}

}  // namespace strata::host
