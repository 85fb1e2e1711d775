#include "models/host/gemm_rate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <thread>

#include "models/host/matmul.hpp"
#include "runtime/errors.hpp"

namespace strata::host {
namespace {

const GemmProduct& find(const std::vector<GemmProduct>& all, const std::string& name) {
  for (const GemmProduct& p : all) {
    if (p.name == name) return p;
  }
  throw std::out_of_range(name);
}

TEST(TrainingProducts, AreThreeForEveryLinearLayerAndTheHead) {
  const Gpt2Config c = parse_gpt2("gpt2:L3,D8,H2,V50,T16");
  const auto all = training_products(c, 32);
  ASSERT_EQ(all.size(), 15u);
  for (const GemmProduct& p : all) EXPECT_EQ(p.count, p.name.starts_with("head") ? 1u : 3u);

  const GemmProduct& y = find(all, "fc y");
  EXPECT_EQ(std::tuple(y.m, y.n, y.k), std::tuple(32, 32, 8));
  EXPECT_FALSE(y.transpose_a || y.transpose_b);
  const GemmProduct& dx = find(all, "fc dx");  // W is [8, 32], read transposed
  EXPECT_EQ(std::tuple(dx.m, dx.n, dx.k), std::tuple(32, 8, 32));
  EXPECT_TRUE(!dx.transpose_a && dx.transpose_b);
  const GemmProduct& dw = find(all, "fc dw");
  EXPECT_EQ(std::tuple(dw.m, dw.n, dw.k), std::tuple(8, 32, 32));
  EXPECT_TRUE(dw.transpose_a && !dw.transpose_b);

  const GemmProduct& logits = find(all, "head y");  // wte is [50, 8]
  EXPECT_EQ(std::tuple(logits.m, logits.n, logits.k), std::tuple(32, 50, 8));
  EXPECT_TRUE(!logits.transpose_a && logits.transpose_b);
  const GemmProduct& dhead = find(all, "head dx");
  EXPECT_EQ(std::tuple(dhead.m, dhead.n, dhead.k), std::tuple(32, 8, 50));
  EXPECT_FALSE(dhead.transpose_a || dhead.transpose_b);
  const GemmProduct& dwte = find(all, "head dw");
  EXPECT_EQ(std::tuple(dwte.m, dwte.n, dwte.k), std::tuple(50, 8, 32));
  EXPECT_TRUE(dwte.transpose_a && !dwte.transpose_b);
}

TEST(TrainingFlops, AreTheFormulaAndTheSumOfTheProducts) {
  // 6 * 1024 * (12 * 12 * 768^2 + 50257 * 768)
  EXPECT_EQ(training_flops(parse_gpt2("gpt2"), 1024), 758980804608.0);
  for (const char* spec : {"gpt2", "gpt2-xl", "gpt2:L6,D384,H6,V256,T128", "gpt2:L1,D2,H1,V3,T5"}) {
    double sum = 0;
    for (const GemmProduct& p : training_products(parse_gpt2(spec), 640)) {
      sum += p.count * p.flops();
    }
    EXPECT_EQ(training_flops(parse_gpt2(spec), 640), sum) << spec;
  }
}

/// Takes 1, 2, 3 ... units of time a run in plain layout, a tenth of that with B packed, and a
/// twentieth with A packed too, which the first product is not.
class CountingRate final : public GemmRate {
 public:
  explicit CountingRate(std::vector<GemmProduct> p) : GemmRate(std::move(p), DType::f32) {}

  std::map<std::pair<size_t, GemmLayout>, int> runs;
  double clock = 0;

 private:
  std::optional<Needs> prepare(size_t i, GemmLayout layout) override {
    if (layout == GemmLayout::packed_ab && i == 0) return std::nullopt;
    return Needs{4 * (i + 1), 8, 16, layout == GemmLayout::plain ? 0u : 64u};
  }
  void run(size_t i, GemmLayout layout, const Memory& m) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(m.a) % 64, 0u);
    EXPECT_NE(m.scratch, nullptr);
    static_cast<volatile std::byte*>(m.a)[4 * products().size() - 1];
    ++runs[{i, layout}];
    constexpr std::array<double, kGemmLayouts> kTimes = {1.0, 0.1, 0.05};
    clock += static_cast<double>(i + 1) * kTimes[static_cast<size_t>(layout)];
  }
  double now() const override { return clock; }
};

std::vector<GemmProduct> two_products() {
  return {{"often", 10, 10, 5, false, false, 12}, {"once", 100, 10, 5, false, false, 1}};
}

TEST(GemmRate, RunsEachProductInItsFastestLayoutAndWeighsByCount) {
  CountingRate rate(two_products());
  rate.calibrate(2);
  for (size_t i : {0, 1}) {
    const auto& weights = rate.choices(GemmPacking::weights)[i];
    EXPECT_EQ(weights.layout, GemmLayout::packed_b);
    EXPECT_NEAR(weights.seconds, 0.1 * (i + 1.0), 1e-9);
    EXPECT_EQ((rate.runs[{i, GemmLayout::plain}]), 2);
  }
  const auto operands = rate.choices(GemmPacking::operands);
  EXPECT_EQ(operands[0].layout, GemmLayout::packed_b);
  EXPECT_EQ(operands[1].layout, GemmLayout::packed_ab);
  rate.runs.clear();
  const auto [weights_rate, operands_rate] = rate.measure(0);
  // 12 * 1000 and 10000 FLOPs; 12 * 0.1 and 0.2 seconds, or 0.1 with both operands packed.
  EXPECT_NEAR(weights_rate, 22000 / 1.4, 1e-6);
  EXPECT_NEAR(operands_rate, 22000 / 1.3, 1e-6);
  EXPECT_EQ((rate.runs[{0, GemmLayout::packed_b}]), 3);
  EXPECT_EQ((rate.runs[{1, GemmLayout::packed_b}]), 1);
  EXPECT_EQ((rate.runs[{1, GemmLayout::packed_ab}]), 1);
  EXPECT_EQ(rate.runs.size(), 3u);
}

TEST(GemmRate, MeasuresWholePassesUntilTheTimeIsUp) {
  CountingRate rate(two_products());
  rate.calibrate(1);
  rate.runs.clear();
  EXPECT_NEAR(rate.measure(0.7)[0], 22000 / 1.4, 1e-6);  // a pass takes 0.6
  EXPECT_EQ((rate.runs[{1, GemmLayout::packed_b}]), 2);
}

TEST(GemmRate, RefusesToMeasureBeforeItCalibrated) {
  CountingRate rate(two_products());
  EXPECT_THROW(rate.measure(0), StateError);
}

class GemmRateArm : public ::testing::TestWithParam<DType> {
 protected:
  /// Every layout computes the whole product, and there is more than one where the library has one.
  static void check(GemmRate& rate) {
    rate.calibrate(1);
    for (const double r : rate.measure(0)) EXPECT_GT(r, 0);
    size_t layouts = 0;
    for (size_t i = 0; i < rate.products().size(); ++i) {
      const GemmProduct& p = rate.products()[i];
      for (size_t l = 0; l < kGemmLayouts; ++l) {
        const auto c = rate.product_of_ones(i, static_cast<GemmLayout>(l));
        if (!c) continue;
        ++layouts;
        // bf16 rounds only above 256; what a wrong tile leaves out is more.
        const auto k = static_cast<float>(p.k);
        const auto wrong = std::count_if(c->begin(), c->end(),
                                         [k](float x) { return !(std::abs(x - k) <= k / 128); });
        EXPECT_EQ(wrong, 0) << p.name << ", " << name_of(static_cast<GemmLayout>(l));
      }
    }
    const MatmulShape any{
        .m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64, .in = GetParam()};
    if (matmul_takes_packed(any)) {
      EXPECT_GT(layouts, rate.products().size());
    }
    const auto packs = [&rate](const char* name) {
      const auto products = rate.products();
      const auto is_it = [name](const GemmProduct& p) { return p.name == name; };
      const auto i = std::find_if(products.begin(), products.end(), is_it) - products.begin();
      return rate.product_of_ones(i, GemmLayout::packed_b).has_value();
    };
    EXPECT_EQ(packs("head y"), packs("attn y"));
  }
};

/// Ragged tiles both ways, a last tile of the head too narrow to stay alone, and one deep enough
/// for more than one step of k.
std::vector<GemmProduct> ragged_products() {
  return training_products(parse_gpt2("gpt2:L1,D144,H2,V4628,T100"), 100);
}

TEST_P(GemmRateArm, ComputesWholeProductsOnThePool) {
  check(*make_pool_gemm_rate(ragged_products(), GetParam(), 2));
}

TEST_P(GemmRateArm, ComputesWholeProductsOnTheLibrarysTeam) {
#if defined(STRATA_PLAIN_GEMM)
  EXPECT_THROW(make_team_gemm_rate(ragged_products(), GetParam(), 2), ConfigError);
#else
  const bool refused = GetParam() == DType::bf16 && matmul_widens_bf16();
  // OpenMP's settings are those of a thread: this one's must stay as they are for other tests.
  std::thread([refused] {
    const auto rate = make_team_gemm_rate(ragged_products(), GetParam(), 2);
    if (refused) {
      EXPECT_THROW(rate->calibrate(1), ConfigError);
    } else {
      check(*rate);
    }
  }).join();
#endif
}

INSTANTIATE_TEST_SUITE_P(Types, GemmRateArm, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

}  // namespace
}  // namespace strata::host
