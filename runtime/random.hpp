// Counter-based random numbers: every value is a pure function of (seed, stream, index).
#pragma once
#include <cstdint>

namespace strata {

/// Who draws; keeps the streams of independent users apart under one seed.
enum class RandomUse : uint32_t { init, data, verify, delay, test, generate };

/// The stream of user `use` for its tensor, op or object `index`.
constexpr uint64_t random_stream(RandomUse use, uint32_t index = 0) noexcept {
  return (static_cast<uint64_t>(use) << 32) | index;
}

/// 64 uniform bits: the first word of Philox2x64-10 with key `seed` and counter (index, stream).
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Random123).
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) noexcept;

/// Uniform in [0, 1), 53 bits.
double random_unit(uint64_t seed, uint64_t stream, uint64_t index) noexcept;

/// Uniform integer in [0, bound), bound > 0. The bias is below bound / 2^64.
uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t bound) noexcept;

/// Standard normal by inversion of the distribution function (Wichura, algorithm AS 241, PPND16,
/// Applied Statistics 37, 1988). Uses only + - * / and sqrt, so the bits are the same with every
/// C library. Largest magnitude about 8.2.
float random_normal(uint64_t seed, uint64_t stream, uint64_t index) noexcept;

}  // namespace strata
