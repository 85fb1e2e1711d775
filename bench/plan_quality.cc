// How near `auto` comes to the bounds, on random steps and on GPT-2 steps of 8 to 48 blocks, with
// two and three tiers. Virtual time and counts alone: the same figures on every machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "models/registry.hpp"
#include "offload/machine.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/files.hpp"
#include "tests/offload/plan_quality.hpp"
#include "tests/offload/random_trace.hpp"

namespace strata {
namespace {

constexpr double kX[] = {0.25, 0.5, 1, 2, 4};

/// Ratios of a set of cases against a bar.
struct Row {
  std::string name;
  double bar;
  std::vector<double> ratios = {};
  double worst = 0;
  std::string worst_case = {};
  uint32_t above = 0;

  void add(double ratio, const std::string& of) {
    ratios.push_back(ratio);
    above += ratio > bar + 1e-9;
    if (ratio > worst || worst_case.empty()) worst_case = of;
    worst = std::max(worst, ratio);
  }
  void print() {
    if (ratios.empty()) return;
    std::sort(ratios.begin(), ratios.end());
    const auto at = [&](double share) {
      return ratios[static_cast<size_t>(share * static_cast<double>(ratios.size() - 1))];
    };
    fmt::print("{:<58} {:>4} {:>7.3f} {:>7.3f} {:>7.3f} {:>6.2f} {:>5}  {}\n", name, ratios.size(),
               at(0.5), at(0.95), worst, bar, above, worst_case);
    std::fflush(stdout);
  }
};

void print_header(const char* title) {
  fmt::print("\n{}\n{:<58} {:>4} {:>7} {:>7} {:>7} {:>6} {:>5}  {}\n", title, "", "n", "median",
             "p95", "worst", "bar", "above", "worst case");
}

struct Named {
  std::string name;
  PlanCase plan;
};
using Visit = std::function<void(const Named&)>;

void random_cases(Below below, uint32_t count, bool small, const Visit& visit) {
  TraceWorkloadConfig config;
  config.chunk_bytes = kRandomChunkBytes;
  for (uint32_t seed = 0; seed < count; ++seed) {
    const double device = static_cast<double>(seed * 61 % 97) / 97;
    const double host = 0.1 + static_cast<double>(seed * 37 % 89) / 89;
    visit({fmt::format("{} {} device {:.2f} host {:.2f}", small ? "small" : "random", seed, device,
                       below == Below::both ? host : 0),
           PlanCase(random_trace(seed, small), config, below, device, host,
                    rates_without_latency(below))});
  }
}

void gpt2_cases(Below below, const std::string& machines, uint32_t most_blocks,
                const Visit& visit) {
  const std::string file =
      machines + (below == Below::both ? "/desktop-24gb.json" : "/two-cores.json");
  const Machine machine = read_machine(read_text(real_files(), file, 1 << 20), file);
  const VirtualRates rates = rates_of(machine, DType::bf16);
  for (const uint32_t blocks : {8u, 12u, 24u, 48u}) {
    if (blocks > most_blocks) break;
    const auto model =
        make_model(fmt::format("gpt2:L{},D512,H8,V8192,T64", blocks), {{8, 64, 1}, DType::bf16, 2});
    const TraceFile trace{"gpt2", 512, model->params(), trace_model(*model, Mode::train)};
    for (uint32_t i = 1; i <= 12; ++i) {
      const bool three = below == Below::both;
      const double device = three ? 0.2 * ((i - 1) % 4) + 0.1 : i / 13.0;
      const double host = three ? 0.25 * ((i - 1) / 4 + 1) : 0;
      visit({fmt::format("{} blocks device {:.2f} host {:.2f}", blocks, device, host),
             PlanCase(trace, {}, below, device, host, rates)});
    }
  }
}

using ForEach = std::function<void(Below, const Visit&)>;

void judge_bytes(const char* set, const ForEach& for_each, bool optimum) {
  for (const Below below : kEveryBelow) {
    const std::string name = fmt::format("{}, {}: ", set, name_of(below));
    Row beyond{name + "beyond 1.02 bounds, in round trips", 1};
    Row near{name + "over the bound, 100 units and more", 1.02};
    Row exact{name + "over the optimum, 12 chunks at most", 1.02};
    for_each(below, [&](const Named& c) {
      const bool small = c.plan.chunks() <= 12;
      const auto b = c.plan.bytes(optimum && small ? 20'000 : 0);
      if (!b) return;
      beyond.add(std::max(0.0, b->over_bar()), c.name);
      if (below != Below::both && b->units >= 100) near.add(b->cost / b->bound, c.name);
      if (b->optimum) exact.add(*b->optimum > 0 ? b->cost / *b->optimum : 1, c.name);
    });
    beyond.print();
    near.print();
    exact.print();
  }
}

double bar_of(Below below, bool random, double x) {
  const bool outside = x <= 0.5 || x >= 2;
  if (below == Below::both) return x >= 2 ? 1.10 : 1.30;
  if (random) return outside ? 1.15 : 1.20;
  return outside ? 1.10 : 1.20;
}

void judge_time(const char* set, const ForEach& for_each, bool random) {
  for (const Below below : kEveryBelow) {
    for (const double x : kX) {
      Row row{fmt::format("{}, {}: step over the bound, x = {}", set, name_of(below), x),
              bar_of(below, random, x)};
      uint32_t slower = 0;
      for_each(below, [&](const Named& c) {
        if (c.plan.units() < 80) return;
        const auto t = c.plan.with_compute(x).time(true);
        if (!t || t->bound <= 0) return;  // nothing has to move
        row.add(t->step / t->bound, c.name + ", " + t->chosen);
        slower += !t->best;
      });
      row.print();
      if (slower != 0) fmt::print("  slower than another policy: {}\n", slower);
    }
  }
}

int run(int argc, char** argv) {
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  const std::string_view what = argc > 1 ? argv[1] : "all";
  if (what != "all" && what != "bytes" && what != "time") {
    fmt::print(stderr, "usage: plan_quality [all|bytes|time [RANDOM [BLOCKS [MACHINES]]]]\n");
    return 2;
  }
  const uint32_t count = number(2, 200), blocks = number(3, 48);
  const std::string machines = argc > 4 ? argv[4] : "machines";
  const ForEach random = [&](Below b, const Visit& v) { random_cases(b, count, false, v); };
  const ForEach small = [&](Below b, const Visit& v) { random_cases(b, count, true, v); };
  const ForEach gpt2 = [&](Below b, const Visit& v) { gpt2_cases(b, machines, blocks, v); };
  if (what != "time") {
    print_header("auto --objective bytes");
    judge_bytes("small", small, true);
    judge_bytes("random", random, false);
    judge_bytes("gpt2", gpt2, false);
  }
  if (what != "bytes") {
    print_header("auto");
    judge_time("random", random, true);
    judge_time("gpt2", gpt2, false);
  }
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::run(argc, argv); }
