#include "cli/bench_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/cpu_time.hpp"
#include "cli/output.hpp"
#include "models/host/gemm_rate.hpp"
#include "models/registry.hpp"
#include "runtime/topology.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

BenchWorkerConfig worker_config(const BenchStepArgs& a, BenchArm arm) {
  BenchWorkerConfig w;
  w.arm = arm;
  w.session.model = a.model.model;
  w.session.shape = {a.model.batch, a.model.seq, a.model.accum};
  w.session.dtype = a.model.dtype;
  w.session.recompute = a.model.recompute;
  w.session.optimizer = a.optimizer.config;
  w.session.clip = a.optimizer.clip;
  w.session.seed = a.seed;
  w.session.threads = a.threads;
  w.lr = a.optimizer.lr;
  return w;
}

/// What the figures of one run mean, beside the samples.
struct Scale {
  double step_flops, step_tokens;
};

double giga(double x) { return x * 1e-9; }

double others_of(const BenchPair& p) {
  return std::max({p.step.others_share.value_or(0), p.team.others_share.value_or(0),
                   p.pool.others_share.value_or(0)});
}

std::string pair_line(size_t i, uint32_t pairs, const BenchPair& p, const Scale& s) {
  return fmt::format(
      "pair {} of {}: step {:.3f} s, {:.1f} GFLOP/s; GEMM {:.1f} on OpenMP, {:.1f} on the pool "
      "({:.1f}, {:.1f} all packed); "
      "others took {:.0f} % of the CPUs",
      i + 1, pairs, s.step_flops / p.step.rates.flops_per_second,
      giga(p.step.rates.flops_per_second), giga(p.team.rates.flops_per_second),
      giga(p.pool.rates.flops_per_second), giga(p.team.rates.packed_flops_per_second),
      giga(p.pool.rates.packed_flops_per_second), 100 * others_of(p));
}

std::string summary_text(const BenchSummary& r, const Scale& s) {
  const double tokens = r.flops_per_second / s.step_flops * s.step_tokens;
  const auto [least, most] = std::minmax_element(r.fractions.begin(), r.fractions.end());
  std::vector<std::vector<std::string>> rows = {
      {"tokens/s", fmt::format("{:.1f}", tokens)},
      {"step", fmt::format("{:.1f} GFLOP/s", giga(r.flops_per_second))},
      {"oneDNN on OpenMP", fmt::format("{:.1f} GFLOP/s", giga(r.team_flops_per_second))},
      {"oneDNN on the pool", fmt::format("{:.1f} GFLOP/s", giga(r.pool_flops_per_second))},
      {"fraction of the faster", fmt::format("{:.3f}", r.fraction)},
      {"  least, most of a pair", fmt::format("{:.3f}, {:.3f}", *least, *most)},
      {"all operands packed", fmt::format("{:.1f} GFLOP/s", giga(r.packed_gemm_flops_per_second))},
      {"fraction of that", fmt::format("{:.3f}", r.packed_fraction)},
      {"CPUs busy in idle workers", fmt::format("{:.4f}", r.idle_cpus)},
  };
  std::string text = aligned_table(rows);
  if (r.others_share > kNoisyShare) text += "\n" + noise_warning(r.others_share);
  return text;
}

Json sample_json(const BenchSample& s) {
  return {{"flops_per_second", s.rates.flops_per_second},
          {"packed_flops_per_second", s.rates.packed_flops_per_second},
          {"wall_seconds", s.wall_seconds},
          {"cpu_seconds", s.cpu_seconds},
          {"others_share", s.others_share ? Json(*s.others_share) : Json(nullptr)}};
}

std::string result_json(const BenchStepArgs& a, const BenchSummary& r,
                        std::span<const BenchPair> pairs, const Scale& s) {
  const auto [least, most] = std::minmax_element(r.fractions.begin(), r.fractions.end());
  Json all = Json::array();
  for (size_t i = 0; i < pairs.size(); ++i) {
    all.push_back({{"fraction", r.fractions[i]},
                   {"step_seconds", s.step_flops / pairs[i].step.rates.flops_per_second},
                   {"step", sample_json(pairs[i].step)},
                   {"openmp", sample_json(pairs[i].team)},
                   {"pool", sample_json(pairs[i].pool)}});
  }
  const Json j = {{"tokens_per_second", r.flops_per_second / s.step_flops * s.step_tokens},
                  {"flops_per_second", r.flops_per_second},
                  {"gemm_flops_per_second", r.gemm_flops_per_second},
                  {"fraction", r.fraction},
                  {"fraction_min", *least},
                  {"fraction_max", *most},
                  {"packed_gemm_flops_per_second", r.packed_gemm_flops_per_second},
                  {"packed_fraction", r.packed_fraction},
                  {"gemm_openmp_flops_per_second", r.team_flops_per_second},
                  {"gemm_pool_flops_per_second", r.pool_flops_per_second},
                  {"others_share_max", r.others_share},
                  {"idle_cpus_max", r.idle_cpus},
                  {"model", model_name(a.model.model)},
                  {"batch", a.model.batch},
                  {"seq", a.model.seq},
                  {"accum", a.model.accum},
                  {"dtype", name_of(a.model.dtype)},
                  {"threads", a.threads},
                  {"pairs", all}};
  return j.dump();
}

/// Short turns, forwards and backwards: a machine that slows down or speeds up, as they do within a
/// second or two, favours no arm.
BenchPair measure_pair(BenchWorker& step, BenchWorker& team, BenchWorker& pool) {
  constexpr int kTurns = 3;
  std::array<BenchWorker*, 3> arms = {&step, &team, &pool};
  std::array<std::vector<BenchSample>, 3> samples;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < arms.size(); ++i) {
      const size_t arm = turn % 2 == 0 ? i : arms.size() - 1 - i;
      samples[arm].push_back(arms[arm]->measure());
    }
  }
  return {together(samples[0]), together(samples[1]), together(samples[2])};
}

}  // namespace

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : (v[half - 1] + v[half]) / 2;
}

BenchSummary summarize(std::span<const BenchPair> pairs) {
  const auto median_of = [&](BenchSample BenchPair::*arm, double BenchRates::*rate) {
    std::vector<double> rates;
    for (const BenchPair& p : pairs) rates.push_back((p.*arm).rates.*rate);
    return median(rates);
  };
  constexpr auto kRate = &BenchRates::flops_per_second;
  constexpr auto kPacked = &BenchRates::packed_flops_per_second;
  BenchSummary r;
  r.flops_per_second = median_of(&BenchPair::step, kRate);
  r.team_flops_per_second = median_of(&BenchPair::team, kRate);
  r.pool_flops_per_second = median_of(&BenchPair::pool, kRate);
  r.team_is_faster = r.team_flops_per_second >= r.pool_flops_per_second;
  r.gemm_flops_per_second = std::max(r.team_flops_per_second, r.pool_flops_per_second);
  const double team_packed = median_of(&BenchPair::team, kPacked);
  const double pool_packed = median_of(&BenchPair::pool, kPacked);
  r.packed_gemm_flops_per_second = std::max(team_packed, pool_packed);
  std::vector<double> packed_fractions;
  for (const BenchPair& p : pairs) {
    const auto over = [&p](bool team, double BenchRates::*rate) {
      return p.step.rates.flops_per_second / ((team ? p.team : p.pool).rates.*rate);
    };
    r.fractions.push_back(over(r.team_is_faster, kRate));
    packed_fractions.push_back(over(team_packed >= pool_packed, kPacked));
    r.others_share = std::max(r.others_share, others_of(p));
  }
  r.packed_fraction = median(packed_fractions);
  for (const auto arm : {&BenchPair::step, &BenchPair::team, &BenchPair::pool}) {
    double cpu = 0, seconds = 0;
    for (const BenchPair& p : pairs) {
      cpu += (p.*arm).idle_cpu_seconds;
      seconds += (p.*arm).idle_seconds;
    }
    if (seconds > 0) r.idle_cpus = std::max(r.idle_cpus, cpu / seconds);
  }
  r.fraction = median(r.fractions);
  return r;
}

int run_bench_step(const BenchStepArgs& given) {
  BenchStepArgs a = given;
  if (a.threads == 0) a.threads = default_threads();
  const Gpt2Config model = parse_gpt2(a.model.model);
  if (a.model.seq == 0) a.model.seq = model.positions;
  const double tokens = double{1} * a.model.batch * a.model.seq * a.model.accum;
  const Scale scale{host::training_flops(model, static_cast<uint64_t>(tokens)), tokens};

  Output out(a.json);
  out.text(fmt::format("{}, {}, batch {} x {} tokens, {} micro-batch{} a step, {} thread{}",
                       model.spec(), name_of(a.model.dtype), a.model.batch, a.model.seq,
                       a.model.accum, a.model.accum == 1 ? "" : "es", a.threads,
                       a.threads == 1 ? "" : "s"));
  // One after another: each warms up and finds its best layouts on an otherwise idle machine.
  BenchWorker step(worker_config(a, BenchArm::step));
  BenchWorker team(worker_config(a, BenchArm::team));
  BenchWorker pool(worker_config(a, BenchArm::pool));
  out.text("step: " + step.about());
  out.text("oneDNN on OpenMP: " + team.about());
  out.text("oneDNN on the pool: " + pool.about());

  std::vector<BenchPair> pairs;
  for (uint32_t i = 0; i < a.pairs; ++i) {
    const BenchPair p = measure_pair(step, team, pool);
    pairs.push_back(p);
    out.text(pair_line(i, a.pairs, p, scale));
  }
  const BenchSummary summary = summarize(pairs);
  out.text(summary_text(summary, scale));
  out.result(result_json(a, summary, pairs, scale));
  return 0;
}

}  // namespace strata
