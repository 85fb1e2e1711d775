// Matrix products of the training path: the thread pool runs single-threaded library calls on fixed
// tiles, so bits depend on the shape, the library and the instruction set, never on threads.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "models/host/gemm_epilogue.hpp"
#include "models/host/matmul.hpp"
#include "runtime/dtype.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::host {

/// C[m, n] = epilogue(A[m, k] * B[k, n]), row-major, leading dimensions in elements, 0 for dense.
/// A transposed operand is stored as A[k, m], B[n, k]. A, B, C, and all an epilogue reads, have
/// types `in`, `in`, `out`, `out`; bf16 operands may give an fp32 result.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  DType in = DType::f32, out = DType::f32;
  Epilogue epilogue = Epilogue::none;
  /// C is not read soon, so it goes past the caches (without an epilogue only).
  bool stream_c = false;

  auto operator<=>(const GemmShape&) const = default;
};

/// Products of m x n x k at a time, k being all of it where it is 0 and nothing is packed; products
/// of the same tile add up in order of k. When `packed`, operands are first rearranged into the
/// order the kernels read: all of B, and A where it is not dense rows of a tile's depth already,
/// either all of it or, when `local_a`, the rows of a tile by the thread that then takes the whole
/// row of tiles. Where operands are packed is not in the bits.
struct GemmTiles {
  int64_t m = 0, n = 0, k = 0;
  bool packed = false;
  bool local_a = false;
};

/// The tiles of a shape: a pure function of m, n, k, transposes and types, and of whether the
/// library has bf16 products.
GemmTiles choose_tiles(const GemmShape& shape);

/// Operands of one call. Matrices of the epilogue share C's leading dimension.
struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;      ///< bias, bias_gelu, bias_residual: [n]
  const void* residual = nullptr;  ///< bias_residual; may be C
  const void* saved = nullptr;     ///< gelu_backward
  void* activation = nullptr;      ///< bias_gelu
};

/// One prepared product: make it ahead, run it any number of times without allocation.
class Gemm {
 public:
  /// Throws ConfigError for sizes or types that make no sense, naming them.
  explicit Gemm(const GemmShape& shape) : Gemm(shape, choose_tiles(shape)) {}
  /// With tiles of the caller's own: other tiles, other bits.
  Gemm(const GemmShape& shape, const GemmTiles& tiles);

  const GemmShape& shape() const noexcept { return shape_; }
  const GemmTiles& tiles() const noexcept { return tiles_; }

  /// Bytes `run` needs on a pool of so many threads.
  size_t scratch_bytes(uint32_t threads) const noexcept {
    return packed_b_bytes_ + packed_a_bytes_ + threads * worker_bytes_;
  }

  /// Computes C; C must not overlap A or B. `scratch` starts at a 64-byte boundary and holds
  /// scratch_bytes(pool.threads()). Must not be called from inside a loop of the pool. Throws
  /// StateError when the scratch is too small.
  void run(ThreadPool& pool, const GemmArgs& args, std::span<std::byte> scratch) const;

 private:
  struct Call;

  /// False when the library does not take these packed shapes.
  bool prepare(const GemmTiles& tiles);
  bool find_products();
  size_t product_index(int64_t i, int64_t j, int64_t c) const noexcept;
  std::byte* packed_b_at(const Call& call, int64_t c, int64_t column) const;
  std::byte* packed_a_at(const Call& call, int64_t c, int64_t i) const;
  std::byte* local_a_at(const Call& call, int64_t c, int64_t rows, uint32_t worker) const;
  void pack_b_piece(const Call& call, int64_t piece) const;
  void pack_a_rows(const Call& call, int64_t c, int64_t i, int64_t rows, std::byte* to) const;
  void multiply(const Call& call, int64_t i, int64_t j, uint32_t worker) const;

  GemmShape shape_;
  GemmTiles tiles_;
  int64_t tiles_m_ = 0, tiles_n_ = 0, tiles_k_ = 0;
  bool packed_a_ = false;
  int64_t pieces_b_ = 0, pieces_a_ = 0;
  size_t packed_b_bytes_ = 0, packed_a_bytes_ = 0;
  size_t product_bytes_ = 0, tile_bytes_ = 0, worker_bytes_ = 0;
  std::array<const Matmul*, 16> products_{};
};

}  // namespace strata::host
