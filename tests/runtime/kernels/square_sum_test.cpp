#include "runtime/kernels/square_sum.hpp"

#include <algorithm>
#include <limits>

#include "runtime/errors.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata::kernels {
namespace {

using namespace testing;

/// The definition in the header, written as a recursion.
template <class T>
double reference_leaf(const std::vector<T>& x, uint64_t leaf) {
  double lane[8] = {};
  for (uint64_t k = 0; k < 64 && leaf * 64 + k < x.size(); ++k) {
    const double v = to_float(x[leaf * 64 + k]);
    lane[k % 8] += v * v;
  }
  for (const uint64_t apart : {4, 2, 1}) {
    for (uint64_t j = 0; j < apart; ++j) lane[j] += lane[j + apart];
  }
  return lane[0];
}

template <class T>
double reference_node(const std::vector<T>& x, uint64_t first, uint64_t leaves) {
  if (leaves == 1) return reference_leaf(x, first);
  const double left = reference_node(x, first, leaves / 2);
  const uint64_t middle = first + leaves / 2;
  return middle * 64 >= x.size() ? left : left + reference_node(x, middle, leaves / 2);
}

template <class T>
double reference(const std::vector<T>& x) {
  uint64_t leaves = 1;
  while (leaves * 64 < x.size()) leaves *= 2;
  return reference_node(x, 0, leaves);
}

DType type_of(const std::vector<float>&) { return DType::f32; }
DType type_of(const std::vector<Bf16>&) { return DType::bf16; }

uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x); }

/// Sums x cut at `cuts` (ascending, from 0 to the size).
template <class T>
double sum_cut(ThreadPool& pool, const std::vector<T>& x, const std::vector<uint64_t>& cuts) {
  std::vector<std::vector<double>> nodes;
  std::vector<SquareSumSlice> slices;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const uint64_t begin = cuts[i];
    const uint64_t n = cuts[i + 1] - begin;
    const uint32_t count = square_sum_node_count(begin, n, x.size());
    EXPECT_LE(count, kMaxSquareSumNodes);
    nodes.emplace_back(count + 1, -1.0);
    square_sum(pool, x.data() + begin, type_of(x), begin, n, x.size(), nodes.back().data());
    EXPECT_EQ(nodes.back().back(), -1.0) << "wrote more nodes than it said";
    slices.push_back({begin, n, nodes.back().data()});
  }
  return square_sum_combine(slices, x.size());
}

template <class T>
void expect_whole(ThreadPool& pool, const std::vector<T>& x) {
  const double want = reference(x);
  EXPECT_EQ(bits_of(sum_cut(pool, x, {0, x.size()})), bits_of(want)) << x.size();
}

const uint64_t kSizes[] = {1, 7, 63, 64, 65, 128, 191, 4096, 4097, 65536, 65537, 300000};

TEST(SquareSum, EqualsTheDefinition) {
  for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    const ThreadPool::Turn turn(pool);
    for_each_target([&] {
      for (const uint64_t n : kSizes) {
        const std::vector<float> x = moderate(n, n, 3.0f);
        expect_whole(pool, x);
        expect_whole(pool, upper(x));
      }
    });
  }
}

TEST(SquareSum, AnyCutGivesTheSameBits) {
  std::mt19937_64 random(5);
  ThreadPool pool(3);
  const ThreadPool::Turn turn(pool);
  for (int round = 0; round < 60; ++round) {
    const uint64_t n = 1 + random() % (round % 4 == 0 ? 600000 : 9000);
    const std::vector<float> x = moderate(n, random(), 1e-3f);
    std::vector<uint64_t> cuts{0, n};
    for (uint64_t k = random() % 9; k > 0; --k) cuts.push_back(random() % (n / 64 + 1) * 64);
    std::sort(cuts.begin(), cuts.end());
    ASSERT_EQ(bits_of(sum_cut(pool, x, cuts)), bits_of(reference(x))) << n;
  }
}

TEST(SquareSum, BlocksGrowWithTheSlice) {
  // Beyond 512 blocks of 1024 leaves threads take larger ones; halves are below that.
  const uint64_t n = (uint64_t{1} << 25) + 3 * 65536 + 77;
  std::vector<Bf16> x(n, Bf16{0x3e99});
  for (uint64_t i = 0; i < n; i += 1000) x[i].bits = static_cast<uint16_t>(0x3d00 + i % 977);
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const double whole = sum_cut(pool, x, {0, n});
  EXPECT_EQ(bits_of(whole), bits_of(sum_cut(pool, x, {0, n / 128 * 64, n})));
  EXPECT_EQ(bits_of(whole), bits_of(sum_cut(pool, x, {0, 64, n / 3 / 64 * 64, n / 64 * 64, n})));
}

TEST(SquareSum, NonFiniteInputGivesNonFiniteSum) {
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  std::mt19937_64 random(7);
  const float bad[] = {std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity(), from_bits(0x7fc00000),
                       from_bits(0xff800001)};
  for (int round = 0; round < 20; ++round) {
    const uint64_t n = 1 + random() % 100000;
    std::vector<float> x(n, std::numeric_limits<float>::max());
    EXPECT_TRUE(std::isfinite(sum_cut(pool, x, {0, n})));
    x[random() % n] = bad[round % 4];
    EXPECT_FALSE(std::isfinite(sum_cut(pool, x, {0, n})));
    EXPECT_FALSE(std::isfinite(sum_cut(pool, upper(x), {0, n})));
  }
}

TEST(SquareSum, NaNHasOnePattern) {
  const std::vector<float> x = patterns(10000, 8);
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const uint64_t nan = bits_of(std::numeric_limits<double>::quiet_NaN());
  for_each_target([&] {
    EXPECT_EQ(bits_of(sum_cut(pool, x, {0, x.size()})), nan);
    EXPECT_EQ(bits_of(sum_cut(pool, x, {0, 640, 6400, x.size()})), nan);
    double nodes[kMaxSquareSumNodes];
    square_sum(pool, x.data(), DType::f32, 0, x.size(), x.size(), nodes);
    EXPECT_EQ(bits_of(nodes[0]), nan);
  });
}

TEST(SquareSum, DenormalsDoNotDependOnTheCaller) {
  const std::vector<float> x(200, from_bits(0x00000123));
  const double want = reference(x);
  ASSERT_GT(want, 0);
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  for_each_target([&] {
    const FlushToZero ftz;
    EXPECT_EQ(bits_of(sum_cut(pool, x, {0, x.size()})), bits_of(want));
    EXPECT_TRUE(ftz.intact());
  });
}

TEST(SquareSum, EmptyTensorIsZero) {
  EXPECT_EQ(square_sum_node_count(0, 0, 0), 0u);
  EXPECT_EQ(square_sum_combine({}, 0), 0.0);
}

TEST(SquareSum, RefusesBadCuts) {
  EXPECT_THROW(square_sum_node_count(32, 64, 1000), StateError);
  EXPECT_THROW(square_sum_node_count(64, 65, 1000), StateError);
  EXPECT_THROW(square_sum_node_count(64, 1000, 1000), StateError);
  EXPECT_THROW(square_sum_node_count(64, ~uint64_t{0} - 63, 1000), StateError);
  EXPECT_NO_THROW(square_sum_node_count(64, 936, 1000));
  const double nodes[2] = {1, 2};
  const SquareSumSlice gap[] = {{0, 64, nodes}, {128, 64, nodes + 1}};
  EXPECT_THROW(square_sum_combine(gap, 192), StateError);
  const SquareSumSlice twice[] = {{0, 64, nodes}, {0, 64, nodes + 1}};
  EXPECT_THROW(square_sum_combine(twice, 128), StateError);
  const SquareSumSlice shortfall[] = {{0, 64, nodes}};
  EXPECT_THROW(square_sum_combine(shortfall, 192), StateError);
}

}  // namespace
}  // namespace strata::kernels
