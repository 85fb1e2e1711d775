// Products of bf16 where the library has none: the operands become fp32, which is exact, and fp32
// products multiply them.
#pragma once
#include <cstddef>

#include "models/host/matmul.hpp"

namespace strata::host {

/// A Matmul of bf16 operands, as `Matmul` describes it. B may not be packed.
class WidenedMatmul {
 public:
  explicit WidenedMatmul(const MatmulShape& shape);

  /// Room for both operands, and for a bf16 result, in fp32, and what the fp32 product needs.
  size_t scratch_bytes() const noexcept;
  /// As `Matmul::run`.
  void run(const void* a, const void* b, void* c, void* scratch) const;
  /// The library's name of the fp32 kernel.
  const std::string& implementation() const noexcept { return product_.implementation(); }

 private:
  MatmulShape shape_;
  Matmul product_;
};

}  // namespace strata::host
