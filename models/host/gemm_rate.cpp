#include "models/host/gemm_rate.hpp"

#include <algorithm>
#include <limits>

#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata::host {

namespace {

void add_linear(std::vector<GemmProduct>& out, const std::string& name, int64_t rows,
                int64_t inputs, int64_t outputs, uint32_t count) {
  out.push_back({name + " y", rows, outputs, inputs, false, false, count});
  out.push_back({name + " dx", rows, inputs, outputs, false, true, count});
  out.push_back({name + " dw", inputs, outputs, rows, true, false, count});
}

/// Finite, of both signs, without denormals: what they are does not matter, that they are there
/// does (untouched pages all map to one page of zeros).
float some_value(size_t i) {
  return static_cast<float>(static_cast<int>((i * 2654435761u >> 13) & 255) - 128) / 256.0f;
}

void fill(const Arena& arena, DType t, float (*value)(size_t)) {
  const size_t n = arena.bytes() / size_of(t);
  if (t == DType::f32) {
    auto* f = reinterpret_cast<float*>(arena.base());
    for (size_t i = 0; i < n; ++i) f[i] = value(i);
  } else {
    auto* h = reinterpret_cast<Bf16*>(arena.base());
    for (size_t i = 0; i < n; ++i) h[i] = to_bf16(value(i));
  }
}

}  // namespace

std::vector<GemmProduct> training_products(const Gpt2Config& c, uint64_t rows) {
  const auto m = static_cast<int64_t>(rows);
  const int64_t d = c.width, v = c.vocabulary;
  std::vector<GemmProduct> out;
  add_linear(out, "attn", m, d, 3 * d, c.layers);
  add_linear(out, "attn_proj", m, d, d, c.layers);
  add_linear(out, "fc", m, d, 4 * d, c.layers);
  add_linear(out, "fc_proj", m, 4 * d, d, c.layers);
  out.push_back({"head y", m, v, d, false, true, 1});
  out.push_back({"head dx", m, d, v, false, false, 1});
  out.push_back({"head dw", v, d, m, true, false, 1});
  return out;
}

double training_flops(const Gpt2Config& c, uint64_t tokens) noexcept {
  const double l = c.layers, d = c.width, v = c.vocabulary;
  return 6.0 * static_cast<double>(tokens) * (12.0 * l * d * d + v * d);
}

const char* name_of(GemmLayout l) noexcept {
  constexpr std::array<const char*, kGemmLayouts> kNames = {"plain", "packed B", "packed A and B"};
  return kNames[static_cast<size_t>(l)];
}

double GemmRate::now() const { return seconds_now(); }

double GemmRate::time(size_t i, GemmLayout layout) {
  const double start = now();
  run(i, layout, memory_);
  return now() - start;
}

void GemmRate::calibrate(uint32_t rounds) {
  layouts_.assign(products_.size(), {});
  Needs most;
  for (size_t i = 0; i < products_.size(); ++i) {
    for (size_t l = 0; l < kGemmLayouts; ++l) {
      const auto layout = static_cast<GemmLayout>(l);
      const auto needs = prepare(i, layout);
      if (!needs) continue;
      layouts_[i].push_back(layout);
      most.a = std::max(most.a, needs->a);
      most.b = std::max(most.b, needs->b);
      most.c = std::max(most.c, needs->c);
      most.scratch = std::max(most.scratch, needs->scratch);
    }
  }
  const std::array<size_t, 4> bytes = {most.a, most.b, most.c, most.scratch};
  for (size_t i = 0; i < arenas_.size(); ++i) {
    arenas_[i] = allocate_pages(bytes[i], "benchmark");
    fill(arenas_[i], dtype_, some_value);
  }
  memory_ = {arenas_[0].base(), arenas_[1].base(), arenas_[2].base(), arenas_[3].base()};

  constexpr Choice kNone = {GemmLayout::plain, std::numeric_limits<double>::infinity()};
  for (auto& c : choices_) c.assign(products_.size(), kNone);
  for (uint32_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < products_.size(); ++i) {
      for (const GemmLayout layout : layouts_[i]) {
        const Choice timed = {layout, time(i, layout)};
        for (size_t p = layout == GemmLayout::packed_ab ? 1 : 0; p < kGemmPackings; ++p) {
          if (timed.seconds < choices_[p][i].seconds) choices_[p][i] = timed;
        }
      }
    }
  }
}

std::optional<std::vector<float>> GemmRate::product_of_ones(size_t i, GemmLayout layout) {
  const auto& has = layouts_.at(i);
  if (std::find(has.begin(), has.end(), layout) == has.end()) return std::nullopt;
  for (size_t operand : {0, 1}) fill(arenas_[operand], dtype_, [](size_t) { return 1.0f; });
  fill(arenas_[2], dtype_, some_value);
  run(i, layout, memory_);
  std::vector<float> c(static_cast<size_t>(products_[i].m * products_[i].n));
  for (size_t j = 0; j < c.size(); ++j) {
    c[j] = dtype_ == DType::f32 ? reinterpret_cast<const float*>(memory_.c)[j]
                                : to_float(reinterpret_cast<const Bf16*>(memory_.c)[j]);
  }
  return c;
}

std::array<double, kGemmPackings> GemmRate::measure(double least_seconds) {
  if (choices_[0].empty()) throw StateError("GEMM rate: measure() before calibrate()");
  struct Sum {
    double seconds = 0;
    uint32_t runs = 0;
  };
  std::vector<std::array<Sum, kGemmLayouts>> sums(products_.size());
  double elapsed = 0;
  const auto measure_once = [&](size_t i, GemmLayout layout) {
    const double seconds = time(i, layout);
    Sum& sum = sums[i][static_cast<size_t>(layout)];
    sum.seconds += seconds;
    ++sum.runs;
    elapsed += seconds;
  };
  const auto& [weights, operands] = choices_;
  do {
    for (uint32_t r = 0; r < kRepeats; ++r) {
      for (size_t i = 0; i < products_.size(); ++i) {
        if (r >= products_[i].count) continue;
        measure_once(i, weights[i].layout);
        if (operands[i].layout != weights[i].layout) measure_once(i, operands[i].layout);
      }
    }
  } while (elapsed < least_seconds);
  std::array<double, kGemmPackings> rates{};
  for (size_t p = 0; p < kGemmPackings; ++p) {
    double flops = 0, total = 0;
    for (size_t i = 0; i < products_.size(); ++i) {
      const Sum& sum = sums[i][static_cast<size_t>(choices_[p][i].layout)];
      flops += products_[i].count * products_[i].flops();
      total += products_[i].count * sum.seconds / sum.runs;
    }
    rates[p] = flops / total;
  }
  return rates;
}

}  // namespace strata::host
