// The fp32 master of a bf16 weight, kept exactly as (weight, remainder).
#pragma once
#include <bit>
#include <cstdint>

#include "runtime/dtype.hpp"

namespace strata::kernels {

/// Upper part (the bf16 weight) and lower 16 bits (the remainder) of one fp32 master.
struct SplitMaster {
  Bf16 hi;
  uint16_t lo;
};

/// Masters whose |bits| reach this would become an infinite or NaN bf16 weight. Test before
/// `split`.
constexpr uint32_t kSplitNonFinite = 0x7f7f8000;

/// Rounds to the nearest bf16, ties away from zero, so that the carry can be undone: ties-to-even
/// would need one more bit. Integers only; reversible for every bit pattern, NaN included.
constexpr SplitMaster split(float master) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(master);
  return {{static_cast<uint16_t>((bits + 0x8000u) >> 16)}, static_cast<uint16_t>(bits & 0xffffu)};
}

/// The inverse of `split`: the top bit of `lo` says whether `hi` was rounded up.
constexpr float join(Bf16 hi, uint16_t lo) noexcept {
  const uint32_t upper = uint32_t{hi.bits} - (uint32_t{lo} >> 15);
  return std::bit_cast<float>((upper << 16) | lo);
}

}  // namespace strata::kernels
