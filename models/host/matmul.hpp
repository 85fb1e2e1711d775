// Single-threaded matrix products by oneDNN, prepared once per shape and cached for the process.
// This and the benchmarks are the only users of the library.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/dtype.hpp"

namespace strata::host {

/// C[m, n] = scale * A[m, k] * B[k, n], plus C when `accumulate`. All matrices are row-major with
/// the given leading dimensions in elements; a transposed operand is stored as A[k, m], B[n, k].
/// Sums are fp32; C is rounded once.
struct MatmulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  DType in = DType::f32, out = DType::f32;
  bool accumulate = false;
  float scale = 1.0f;
  /// B is in the blocks of gemm_pack.hpp; ldb and transpose_b are not used. Only where
  /// `matmul_takes_packed`.
  bool packed_b = false;

  auto operator<=>(const MatmulShape&) const = default;
};

class WidenedMatmul;

/// One prepared product. It runs on the calling thread alone (the library starts no team), and the
/// same object may run on several threads at once.
class Matmul {
 public:
  /// Throws ConfigError for a shape that makes no sense, naming it. Where the library has no bf16
  /// products (without AVX-512), fp32 ones multiply the widened operands.
  explicit Matmul(const MatmulShape& shape);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  const MatmulShape& shape() const noexcept { return shape_; }
  /// Bytes `run` needs at `scratch`; may be 0.
  size_t scratch_bytes() const noexcept { return scratch_bytes_; }
  /// The library's name of the kernel it chose: part of the numerics key.
  const std::string& implementation() const noexcept { return implementation_; }

  /// Computes C. `scratch` holds scratch_bytes() at a 64-byte boundary, used by this call alone.
  /// The first call on a thread allocates a few handles; later ones allocate nothing of ours.
  void run(const void* a, const void* b, void* c, void* scratch) const;

 private:
  struct Impl;

  MatmulShape shape_;
  size_t scratch_bytes_ = 0;
  std::string implementation_;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<WidenedMatmul> widened_;
};

/// The process's one Matmul of this shape, made on first use and never destroyed. Thread-safe;
/// callers look up ahead and keep the reference.
const Matmul& matmul(const MatmulShape& shape);

/// True when the library multiplies this shape with B in the blocks of gemm_pack.hpp. A property of
/// the shape, the library and the instruction set.
bool matmul_takes_packed(const MatmulShape& shape);

/// Whether products of bf16 are fp32 products of widened operands here. Their scratch holds both
/// operands, so long products are better cut along k.
bool matmul_widens_bf16();

/// Name and version of the library in use: part of the numerics key.
std::string matmul_library();

}  // namespace strata::host
