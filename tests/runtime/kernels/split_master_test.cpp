#include "runtime/kernels/split_master.hpp"

#include "runtime/kernels/elementwise.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata::kernels {
namespace {

using namespace testing;

static_assert(split(1.0f).hi.bits == 0x3f80 && split(1.0f).lo == 0);
static_assert(split(std::bit_cast<float>(0x3f808000u)).hi.bits == 0x3f81, "ties go away from zero");
static_assert(join({0x3f81}, 0x8000) == std::bit_cast<float>(0x3f808000u));

TEST(SplitMaster, IsReversible) {
  // An odd stride coprime to 2^16 meets every pair of exponent and low half.
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1021) {
    const auto [hi, lo] = split(from_bits(static_cast<uint32_t>(bits)));
    ASSERT_EQ(bits_of(join(hi, lo)), bits) << std::hex << bits;
  }
  for (const float x : patterns(10000, 1)) {
    const auto [hi, lo] = split(x);
    ASSERT_EQ(bits_of(join(hi, lo)), bits_of(x));
  }
}

TEST(SplitMaster, WeightIsTheNearestBf16) {
  for (const float x : patterns(10000, 2)) {
    const Bf16 hi = split(x).hi;
    const uint32_t magnitude = bits_of(x) & 0x7fffffffu;
    if (magnitude >= kSplitNonFinite) continue;
    ASSERT_TRUE(std::isfinite(to_float(hi)));
    const bool tie = (bits_of(x) & 0xffffu) == 0x8000u;
    ASSERT_TRUE(tie || hi.bits == to_bf16(x).bits) << std::hex << bits_of(x);
  }
  EXPECT_TRUE(std::isinf(to_float(split(from_bits(kSplitNonFinite)).hi)));
}

TEST(SplitMaster, VectorsEqualScalars) {
  const size_t n = 70001;
  const std::vector<float> master = patterns(n, 3);
  std::vector<Bf16> want_hi(n);
  std::vector<uint16_t> want_lo(n);
  for (size_t i = 0; i < n; ++i) {
    want_hi[i] = split(master[i]).hi;
    want_lo[i] = split(master[i]).lo;
  }
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    const ThreadPool::Turn turn(pool);
    for_each_target([&] {
      std::vector<Bf16> hi(n);
      std::vector<uint16_t> lo(n);
      std::vector<float> back(n);
      split(pool, master.data(), hi.data(), lo.data(), n);
      join(pool, hi.data(), lo.data(), back.data(), n);
      expect_same_bits(want_hi, hi, "hi");
      expect_same_bits(want_lo, lo, "lo");
      expect_same_bits(master, back, "master");
    });
  }
}

}  // namespace
}  // namespace strata::kernels
