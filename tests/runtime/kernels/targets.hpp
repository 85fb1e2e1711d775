// Runs a check on every Highway target, and inputs that reach the corners of fp32.
#pragma once
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/dtype.hpp"
#include "runtime/kernels/isa.hpp"
#include "runtime/thread_pool.hpp"

namespace strata::kernels::testing {

/// Calls f() once with each compiled and supported target forced; restores the choice at the end.
template <class F>
void for_each_target(F&& f) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(isa_name());
    EXPECT_STREQ(isa_name(), hwy::TargetName(target));
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

inline float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float canonical(float x) { return std::isnan(x) ? from_bits(0x7fc00000u) : x; }

/// A third each of any bit pattern, corners (NaN, infinity, denormals, ties, the largest) and
/// numbers near one.
inline std::vector<float> patterns(size_t n, uint64_t seed) {
  static constexpr uint32_t kCorners[] = {
      0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff,
      0xff7f8000, 0x3f808000, 0x3f818000, 0x3f807fff, 0x3f808001, 0x00008000, 0x80008000,
      0x0000ffff, 0x7fbfffff, 0xffffffff, 0x1f800000, 0x5f800000, 0x0d800000};
  std::mt19937_64 random(seed);
  std::vector<float> x(n);
  for (float& value : x) {
    const uint64_t r = random();
    switch (r % 3) {
      case 0: value = from_bits(static_cast<uint32_t>(r >> 32)); break;
      case 1: value = from_bits(kCorners[(r >> 32) % std::size(kCorners)]); break;
      default: value = from_bits(0x3f000000u | (static_cast<uint32_t>(r >> 32) & 0x80ffffffu));
    }
  }
  return x;
}

/// Finite numbers of about `scale`.
inline std::vector<float> moderate(size_t n, uint64_t seed, float scale) {
  std::mt19937_64 random(seed);
  std::vector<float> x(n);
  for (float& value : x) {
    value = scale * (static_cast<float>(static_cast<int32_t>(random() >> 32)) * 0x1p-31f);
  }
  return x;
}

inline std::vector<Bf16> upper(const std::vector<float>& x) {
  std::vector<Bf16> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i].bits = static_cast<uint16_t>(bits_of(x[i]) >> 16);
  return y;
}

/// Bits of any element type, so that NaN equals itself and -0 differs from 0.
inline uint32_t raw(float x) { return bits_of(x); }
inline uint32_t raw(Bf16 x) { return x.bits; }
inline uint32_t raw(uint16_t x) { return x; }

template <class T>
void expect_same_bits(const std::vector<T>& want, const std::vector<T>& got, const char* what) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(raw(want[i]), raw(got[i])) << what << " differs at element " << i;
  }
}

/// A host framework that left flush-to-zero and denormals-are-zero on.
class FlushToZero {
 public:
#if defined(__x86_64__)
  FlushToZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushToZero() { _mm_setcsr(saved_); }
  /// Whether the setting is still as the constructor left it.
  bool intact() const { return (_mm_getcsr() & 0x8040u) == 0x8040u; }

 private:
  unsigned saved_;
#else
  bool intact() const { return true; }
#endif
};

}  // namespace strata::kernels::testing
