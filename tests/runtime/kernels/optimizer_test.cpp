#include "runtime/kernels/optimizer.hpp"

#include <cstring>
#include <limits>

#include "runtime/kernels/split_master.hpp"
#include "tests/runtime/kernels/targets.hpp"

namespace strata::kernels {
namespace {

using namespace testing;

/// The planes of some tensors laid end to end, cut into slices of awkward sizes.
struct Planes {
  static constexpr uint64_t kCuts[] = {0, 1, 8, 8, 71, 40000, 70003};
  static constexpr size_t kN = 70003;

  Planes(DType weight_type, DType grad_type, std::vector<float> w, std::vector<float> g,
         std::vector<float> m_in, std::vector<float> v_in)
      : weight_type(weight_type),
        grad_type(grad_type),
        w32(std::move(w)),
        g32(std::move(g)),
        g16(upper(g32)),
        m(std::move(m_in)),
        v(std::move(v_in)) {
    hi.resize(w32.size());
    lo.resize(w32.size());
    if (weight_type == DType::bf16) set_masters(w32);
  }

  static Planes random(DType weight_type, DType grad_type, uint64_t seed) {
    return {weight_type,
            grad_type,
            patterns(kN, seed),
            patterns(kN, seed + 1),
            patterns(kN, seed + 2),
            patterns(kN, seed + 3)};
  }

  void set_masters(const std::vector<float>& masters) {
    w32 = masters;
    for (size_t i = 0; i < w32.size(); ++i) {
      hi[i] = split(w32[i]).hi;
      lo[i] = split(w32[i]).lo;
    }
  }
  std::vector<float> masters() const {
    if (weight_type == DType::f32) return w32;
    std::vector<float> x(hi.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = join(hi[i], lo[i]);
    return x;
  }
  float grad(size_t i) const { return grad_type == DType::f32 ? g32[i] : to_float(g16[i]); }

  static float decay(size_t slice) { return slice % 2 == 0 ? 0.1f : 0.0f; }
  static float decay_of(size_t element) {
    size_t slice = 0;
    while (kCuts[slice + 1] <= element) ++slice;
    return decay(slice);
  }

  template <class Slice, class F>
  std::vector<Slice> slices(F&& make) {
    std::vector<Slice> out;
    for (size_t s = 0; s + 1 < std::size(kCuts); ++s) {
      const uint64_t at = std::min<uint64_t>(kCuts[s], w32.size());
      const uint64_t end = std::min<uint64_t>(kCuts[s + 1], w32.size());
      const bool f32 = weight_type == DType::f32;
      void* weight = f32 ? static_cast<void*>(w32.data() + at) : hi.data() + at;
      const void* grad =
          grad_type == DType::f32 ? static_cast<const void*>(g32.data() + at) : g16.data() + at;
      out.push_back(make(weight, f32 ? nullptr : lo.data() + at, grad, at, end - at, decay(s)));
    }
    return out;
  }
  std::vector<AdamWSlice> adamw_slices() {
    return slices<AdamWSlice>(
        [this](void* w, uint16_t* r, const void* g, uint64_t at, uint64_t n, float wd) {
          return AdamWSlice{w, r, g, m.data() + at, v.data() + at, n, wd};
        });
  }
  std::vector<SgdSlice> sgd_slices(bool momentum) {
    return slices<SgdSlice>(
        [this, momentum](void* w, uint16_t* r, const void* g, uint64_t at, uint64_t n, float wd) {
          return SgdSlice{w, r, g, momentum ? m.data() + at : nullptr, n, wd};
        });
  }

  void expect_same(const Planes& got) const {
    expect_same_bits(w32, got.w32, "weight");
    expect_same_bits(hi, got.hi, "weight");
    expect_same_bits(lo, got.lo, "remainder");
    expect_same_bits(m, got.m, "m");
    expect_same_bits(v, got.v, "v");
  }

  DType weight_type, grad_type;
  std::vector<float> w32, g32;
  std::vector<Bf16> g16, hi;
  std::vector<uint16_t> lo;
  std::vector<float> m, v;
};

const AdamWParams kAdamW{1e-3, 0.9, 0.999, 1e-8};
const StepScale kScale{0.37f, 1, 3.7f, 310.0f};
const SgdParams kSgd{0.05, 0.9};

/// The formula of the header in scalar fp32.
void reference_adamw(Planes& p) {
  const auto b1 = static_cast<float>(kAdamW.beta1);
  const auto r1 = static_cast<float>(1 - kAdamW.beta1);
  const auto b2 = static_cast<float>(kAdamW.beta2);
  const auto r2 = static_cast<float>(1 - kAdamW.beta2);
  const auto eps = static_cast<float>(kAdamW.eps);
  const auto step = static_cast<float>(kAdamW.lr * kScale.inv_bias1);
  std::vector<float> w = p.masters();
  for (size_t i = 0; i < w.size(); ++i) {
    const float g = p.grad(i) * kScale.clip;
    p.m[i] = canonical(b1 * p.m[i] + r1 * g);
    p.v[i] = canonical(b2 * p.v[i] + (r2 * g) * g);
    const float decayed = w[i] * static_cast<float>(1 - kAdamW.lr * Planes::decay_of(i));
    w[i] = canonical(decayed - (step * p.m[i]) / (std::sqrt(p.v[i] * kScale.inv_bias2) + eps));
  }
  if (p.weight_type == DType::bf16) p.set_masters(w);
  p.w32 = w;
}

void reference_sgd(Planes& p, bool momentum) {
  const auto mu = static_cast<float>(kSgd.momentum);
  const auto lr = static_cast<float>(kSgd.lr);
  std::vector<float> w = p.masters();
  for (size_t i = 0; i < w.size(); ++i) {
    float g = p.grad(i) * kScale.clip + Planes::decay_of(i) * w[i];
    if (momentum) g = p.m[i] = canonical(mu * p.m[i] + g);
    w[i] = canonical(w[i] - lr * g);
  }
  if (p.weight_type == DType::bf16) p.set_masters(w);
  p.w32 = w;
}

class Optimizer : public ::testing::TestWithParam<std::tuple<DType, DType>> {
 protected:
  Planes planes(uint64_t seed) const {
    return Planes::random(std::get<0>(GetParam()), std::get<1>(GetParam()), seed);
  }
  /// Runs `update(pool, planes)` on every target and thread count and compares with `want`.
  template <class F>
  void expect_everywhere(const Planes& start, Planes want, F&& update) {
    for (const uint32_t threads : {1u, 2u, 3u, 8u}) {
      SCOPED_TRACE(threads);
      ThreadPool pool(threads);
      const ThreadPool::Turn turn(pool);
      for_each_target([&] {
        Planes got = start;
        update(pool, got);
        if (got.weight_type == DType::bf16) got.w32 = want.w32;
        want.expect_same(got);
      });
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, Optimizer,
                         ::testing::Combine(::testing::Values(DType::f32, DType::bf16),
                                            ::testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_grad_" +
                                  name_of(std::get<1>(info.param));
                         });

TEST_P(Optimizer, AdamWEqualsScalarsForAnyBits) {
  const Planes start = planes(10);
  Planes want = start;
  reference_adamw(want);
  expect_everywhere(start, want, [](ThreadPool& pool, Planes& p) {
    adamw(pool, p.adamw_slices(), p.weight_type, p.grad_type, kAdamW, &kScale);
  });
}

TEST_P(Optimizer, SgdEqualsScalarsForAnyBits) {
  for (const bool momentum : {false, true}) {
    const Planes start = planes(20);
    Planes want = start;
    reference_sgd(want, momentum);
    expect_everywhere(start, want, [momentum](ThreadPool& pool, Planes& p) {
      sgd(pool, p.sgd_slices(momentum), p.weight_type, p.grad_type, kSgd, &kScale);
    });
  }
}

TEST_P(Optimizer, ApplyZeroTouchesNothing) {
  const StepScale skip{std::numeric_limits<float>::quiet_NaN(), 0, 1, 1};
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  const Planes start = planes(30);
  Planes got = start;
  std::atomic<uint32_t> nonfinite{0};
  adamw(pool, got.adamw_slices(), got.weight_type, got.grad_type, kAdamW, &skip, &nonfinite);
  sgd(pool, got.sgd_slices(true), got.weight_type, got.grad_type, kSgd, &skip, &nonfinite);
  start.expect_same(got);
  EXPECT_EQ(nonfinite.load(), 0u);
}

TEST_P(Optimizer, DenormalsDoNotDependOnTheCaller) {
  auto [weight_type, grad_type] = GetParam();
  const Planes start(weight_type, grad_type, moderate(100, 1, 1e-38f), moderate(100, 2, 1e-20f),
                     moderate(100, 3, 1e-39f), std::vector<float>(100, from_bits(0x1234)));
  Planes want = start;
  ThreadPool pool(1);
  const ThreadPool::Turn turn(pool);
  reference_adamw(want);
  reference_sgd(want, true);
  for_each_target([&] {
    Planes got = start;
    {
      const FlushToZero ftz;
      adamw(pool, got.adamw_slices(), weight_type, grad_type, kAdamW, &kScale);
      sgd(pool, got.sgd_slices(true), weight_type, grad_type, kSgd, &kScale);
      EXPECT_TRUE(ftz.intact());
    }
    if (weight_type == DType::bf16) got.w32 = want.w32;
    want.expect_same(got);
  });
}

TEST_P(Optimizer, ReportsNonFiniteMasters) {
  auto [weight_type, grad_type] = GetParam();
  const bool bf16 = weight_type == DType::bf16;
  ThreadPool pool(2);
  const ThreadPool::Turn turn(pool);
  struct Case {
    uint32_t bits;
    bool bad;
  };
  const Case cases[] = {{0x3f800000, false}, {0x7f7f7fff, false}, {0xff7f7fff, false},
                        {0x7f7f8000, bf16},  {0xff7f8000, bf16},  {0x7f7fffff, bf16},
                        {0x7f800000, true},  {0xff800000, true},  {0x7fc00000, true},
                        {0xff800001, true}};
  const AdamWParams still{0, 0.9, 0.999, 1e-8};
  for_each_target([&] {
    for (const size_t where : {size_t{0}, size_t{70}, size_t{71}, size_t{99}}) {
      for (const auto& [bits, bad] : cases) {
        std::vector<float> w(100, 1.0f);
        w[where] = from_bits(bits);
        const std::vector<float> zero(100, 0.0f);
        Planes p(weight_type, grad_type, w, zero, zero, zero);
        auto adamw_slices = p.adamw_slices();
        auto sgd_slices = p.sgd_slices(false);
        for (auto& s : adamw_slices) s.weight_decay = 0;
        for (auto& s : sgd_slices) s.weight_decay = 0;
        std::atomic<uint32_t> flag{0};
        adamw(pool, adamw_slices, weight_type, grad_type, still, &kScale, &flag);
        EXPECT_EQ(flag.load(), bad ? 1u : 0u) << std::hex << bits;
        flag = 0;
        sgd(pool, sgd_slices, weight_type, grad_type, {0, 0}, &kScale, &flag);
        EXPECT_EQ(flag.load(), bad ? 1u : 0u) << std::hex << bits;
      }
    }
  });
}

TEST(AdamW, FollowsTheDefinitionOverSteps) {
  // Textbook AdamW in double against the kernel, for both kinds of weights.
  const size_t n = 1000;
  for (const DType type : {DType::f32, DType::bf16}) {
    std::vector<float> start = moderate(n, 1, 0.05f);
    Planes p(type, DType::f32, start, moderate(n, 2, 1e-3f), std::vector<float>(n),
             std::vector<float>(n));
    std::vector<double> w(start.begin(), start.end()), m(n), v(n);
    ThreadPool pool(2);
    const ThreadPool::Turn turn(pool);
    const double lr = 1e-2, b1 = 0.9, b2 = 0.99, eps = 1e-8;
    for (uint64_t t = 1; t <= 20; ++t) {
      const StepScale scale{0.5f, 1, static_cast<float>(1 / bias_correction(b1, t)),
                            static_cast<float>(1 / bias_correction(b2, t))};
      p.g32 = moderate(n, 100 + t, 1e-3f);
      adamw(pool, p.adamw_slices(), type, DType::f32, {lr, b1, b2, eps}, &scale);
      for (size_t i = 0; i < n; ++i) {
        const double g = 0.5 * double{p.g32[i]};
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        const double mean = m[i] / (1 - std::pow(b1, t)), square = v[i] / (1 - std::pow(b2, t));
        w[i] -= lr * double{Planes::decay_of(i)} * w[i];
        w[i] -= lr * mean / (std::sqrt(square) + eps);
      }
    }
    const std::vector<float> got = p.masters();
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(got[i], w[i], 2e-7) << name_of(type) << " " << i;
  }
}

TEST(BiasCorrection, IsOneMinusThePower) {
  EXPECT_EQ(bias_correction(0.9, 0), 0.0);
  EXPECT_EQ(bias_correction(0.9, 1), 1 - 0.9);
  EXPECT_EQ(bias_correction(0.9, 3), 1 - 0.9 * (0.9 * 0.9));
  for (const uint64_t step : {7, 100, 12345}) {
    EXPECT_NEAR(bias_correction(0.999, step), 1 - std::pow(0.999, step), 1e-13);
  }
}

}  // namespace
}  // namespace strata::kernels
