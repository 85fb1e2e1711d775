// How fast the library multiplies matrices of a model's shapes: the yardstick of a training step.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/gpt2_config.hpp"
#include "runtime/backend.hpp"
#include "runtime/dtype.hpp"

namespace strata::host {

/// C[m, n] = A[m, k] * B[k, n], row-major and dense; a transposed operand is stored as A[k, m],
/// B[n, k].
struct GemmProduct {
  std::string name;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  uint32_t count = 1;  ///< times one micro-batch needs it

  double flops() const noexcept {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

/// The products of forward and backward for one micro-batch of `rows` tokens: three for each linear
/// layer (y = x W, dx = dy W^T, dW = x^T dy, with W [in, out]) and three for the tied head
/// (wte [vocabulary, width]) over all rows at once. Those inside attention are not among them.
std::vector<GemmProduct> training_products(const Gpt2Config&, uint64_t rows);

/// 6 * tokens * (12 * layers * width^2 + vocabulary * width): FLOPs of all `training_products`.
double training_flops(const Gpt2Config&, uint64_t tokens) noexcept;

/// How operands lie when a product starts; making the packed orders is not part of it.
enum class GemmLayout : uint8_t {
  plain,      ///< as the model has them
  packed_b,   ///< B in the library's own order
  packed_ab,  ///< A too, where the library would rearrange it in every call
};
constexpr size_t kGemmLayouts = 3;
const char* name_of(GemmLayout) noexcept;

/// What is in the order that suits the library before a product starts.
enum class GemmPacking : uint8_t {
  weights,   ///< B at most, as whoever calls the library for a model's layers can arrange
  operands,  ///< A too, so that no product of activations has to transpose them
};
constexpr size_t kGemmPackings = 2;

/// Measures the products one after another on memory of its own: prepared once, then called as a
/// training loop would. Every product runs in whichever layouts `calibrate` found fastest.
class GemmRate {
 public:
  virtual ~GemmRate() = default;
  GemmRate(const GemmRate&) = delete;
  GemmRate& operator=(const GemmRate&) = delete;

  /// Prepares and times every layout of every product, `rounds` times; the least time decides.
  void calibrate(uint32_t rounds);

  /// FLOP/s for each GemmPacking: sum of count * FLOPs over sum of count * mean seconds, over whole
  /// passes that take at least `least_seconds`. In a pass, products that count more than once run
  /// up to `kRepeats` times, in turn. After `calibrate` only.
  std::array<double, kGemmPackings> measure(double least_seconds);
  static constexpr uint32_t kRepeats = 3;

  /// C of product `i` when every element of A and B is 1, so that every element is k; nothing where
  /// the product has no such layout. The data of a measurement mean nothing, so tests look here for
  /// what a layout leaves out. After `calibrate` only.
  std::optional<std::vector<float>> product_of_ones(size_t i, GemmLayout);

  struct Choice {
    GemmLayout layout = GemmLayout::plain;
    double seconds = 0;  ///< the least seen in calibration
  };
  std::span<const GemmProduct> products() const noexcept { return products_; }
  /// One for each product, after calibration.
  std::span<const Choice> choices(GemmPacking p) const noexcept {
    return choices_[static_cast<size_t>(p)];
  }

 protected:
  GemmRate(std::vector<GemmProduct> products, DType dtype)
      : products_(std::move(products)), dtype_(dtype) {}

  DType dtype() const noexcept { return dtype_; }

  /// Bytes a product's operands and scratch take.
  struct Needs {
    size_t a = 0, b = 0, c = 0, scratch = 0;
  };
  /// At 2 MiB boundaries, filled with small numbers.
  struct Memory {
    std::byte *a, *b, *c, *scratch;
  };

 private:
  /// Makes product `i` ready in this layout; nothing when it has no such layout.
  virtual std::optional<Needs> prepare(size_t i, GemmLayout) = 0;
  virtual void run(size_t i, GemmLayout, const Memory&) = 0;
  /// Seconds; tests bring their own clock.
  virtual double now() const;

  double time(size_t i, GemmLayout);

  std::vector<GemmProduct> products_;
  DType dtype_;
  std::array<Arena, 4> arenas_;
  Memory memory_{};
  std::vector<std::vector<GemmLayout>> layouts_;  // that each product has
  std::array<std::vector<Choice>, kGemmPackings> choices_;
};

/// The library runs each product on its own team of `threads`. The calling thread's OpenMP settings
/// change, so the process should do nothing else. Throws ConfigError in a build without oneDNN.
std::unique_ptr<GemmRate> make_team_gemm_rate(std::vector<GemmProduct>, DType, uint32_t threads);

/// Our thread pool runs single-threaded library calls on fixed tiles, as the model does.
std::unique_ptr<GemmRate> make_pool_gemm_rate(std::vector<GemmProduct>, DType, uint32_t threads);

}  // namespace strata::host
