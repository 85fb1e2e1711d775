#include "runtime/kernels/elementwise.hpp"

#include "tests/runtime/kernels/targets.hpp"

namespace strata::kernels {
namespace {

using namespace testing;

constexpr size_t kN = 70003;  // three blocks, the last with a tail

template <class T>
struct Type;
template <>
struct Type<float> {
  static constexpr DType kType = DType::f32;
  static std::vector<float> random(uint64_t seed) { return patterns(kN, seed); }
  static float from(float x) { return x; }
};
template <>
struct Type<Bf16> {
  static constexpr DType kType = DType::bf16;
  static std::vector<Bf16> random(uint64_t seed) { return upper(patterns(kN, seed)); }
  static Bf16 from(float x) { return to_bf16(x); }
};

template <class F>
void for_each_pool(F&& f) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    SCOPED_TRACE(threads);
    ThreadPool pool(threads);
    const ThreadPool::Turn turn(pool);
    for_each_target([&] { f(pool); });
  }
}

template <class Pair>
class Elementwise : public ::testing::Test {};

template <class To, class From>
struct Pair {
  using A = To;
  using B = From;
};
using Pairs =
    ::testing::Types<Pair<float, float>, Pair<float, Bf16>, Pair<Bf16, float>, Pair<Bf16, Bf16>>;
TYPED_TEST_SUITE(Elementwise, Pairs);

TYPED_TEST(Elementwise, StoreCastEqualsScalars) {
  using To = typename TypeParam::A;
  using From = typename TypeParam::B;
  const std::vector<From> src = Type<From>::random(1);
  std::vector<To> want(kN);
  for (size_t i = 0; i < kN; ++i) {
    if constexpr (std::is_same_v<To, From>) {
      want[i] = src[i];
    } else {
      want[i] = Type<To>::from(to_float(src[i]));
    }
  }
  for_each_pool([&](ThreadPool& pool) {
    std::vector<To> dst(kN);
    store_cast(pool, dst.data(), Type<To>::kType, src.data(), Type<From>::kType, kN);
    expect_same_bits(want, dst, "dst");
  });
}

TYPED_TEST(Elementwise, AccumulateEqualsScalars) {
  using Acc = typename TypeParam::A;
  using X = typename TypeParam::B;
  const std::vector<Acc> start = Type<Acc>::random(2);
  const std::vector<X> x = Type<X>::random(3);
  std::vector<Acc> want(kN);
  for (size_t i = 0; i < kN; ++i) {
    want[i] = Type<Acc>::from(canonical(to_float(start[i]) + to_float(x[i])));
  }
  for_each_pool([&](ThreadPool& pool) {
    std::vector<Acc> acc = start;
    accumulate(pool, acc.data(), Type<Acc>::kType, x.data(), Type<X>::kType, kN);
    expect_same_bits(want, acc, "acc");
  });
}

TYPED_TEST(Elementwise, EveryTailLengthStaysInBounds) {
  using Acc = typename TypeParam::A;
  using X = typename TypeParam::B;
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const std::vector<X> x = Type<X>::random(4);
  const Acc guard = Type<Acc>::from(7.0f);
  for_each_target([&] {
    for (size_t n = 0; n <= 70; ++n) {
      std::vector<Acc> acc(n + 8, guard);
      store_cast(pool, acc.data(), Type<Acc>::kType, x.data(), Type<X>::kType, n);
      accumulate(pool, acc.data(), Type<Acc>::kType, x.data(), Type<X>::kType, n);
      for (size_t i = n; i < acc.size(); ++i) ASSERT_EQ(raw(acc[i]), raw(guard)) << n;
    }
  });
}

TEST(ElementwiseDenormals, DoNotDependOnTheCaller) {
  const std::vector<float> x = {from_bits(1), from_bits(0x007fffff), from_bits(0x80400000),
                                from_bits(0x00800000)};
  const std::vector<float> y = {from_bits(2), from_bits(0x00000001), from_bits(0x00300000),
                                from_bits(0x80400000)};
  std::vector<float> want(4);
  for (size_t i = 0; i < 4; ++i) want[i] = x[i] + y[i];
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  for_each_target([&] {
    std::vector<float> acc = x;
    {
      const FlushToZero ftz;
      accumulate(pool, acc.data(), DType::f32, y.data(), DType::f32, 4);
      EXPECT_TRUE(ftz.intact()) << "the caller's setting was not restored";
    }
    expect_same_bits(want, acc, "acc");
  });
}

}  // namespace
}  // namespace strata::kernels
