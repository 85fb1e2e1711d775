// Element types of tensors and the bf16 conversions used off the hot paths.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

enum class DType : uint8_t { f32, bf16 };

constexpr size_t size_of(DType t) noexcept { return t == DType::f32 ? 4 : 2; }
constexpr const char* name_of(DType t) noexcept { return t == DType::f32 ? "fp32" : "bf16"; }

/// Storage of one bfloat16: the upper half of an IEEE float32.
struct Bf16 {
  uint16_t bits;
};

constexpr float to_float(Bf16 x) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
constexpr float to_float(float x) noexcept { return x; }

/// Rounds to nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace strata
