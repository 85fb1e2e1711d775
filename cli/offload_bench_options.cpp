#include "cli/offload_bench_options.hpp"

#include "cli/flag_groups.hpp"
#include "offload/policy/policy.hpp"

namespace strata {
namespace {

/// Of a state; more keeps all of it on the device.
constexpr RealRange kFraction{0, 1};

std::vector<double> parse_reals(std::string_view flag, std::string_view text,
                                const RealRange& range) {
  std::vector<double> out;
  for (const std::string& item : parse_list(flag, text)) {
    out.push_back(parse_real(flag, item, range));
  }
  return out;
}

void add_shared(Flags& flags, OffloadBenchArgs& a, const char* policies) {
  flags.count("--accum", a.model.accum, "Micro-batches of a step", 1, 1u << 24);
  add_recompute(flags, a.model.recompute);
  add_chunk_size(flags, a.chunk_bytes);
  add_optimizer(flags, a.optimizer, false);
  flags.group("Tiers");
  flags.value("--nvme-rate", "BYTES", "no limit",
              "Most bytes a second to and from the NVMe tier together, as of a slower drive",
              [&a](const std::string& text) {
                a.nvme_rate = parse_bytes("--nvme-rate", text);
                if (a.nvme_rate == 0) throw ConfigError("--nvme-rate: must not be 0");
              });
  add_checksums(flags, a.nvme_unchecked);
  flags.each("--policy", "NAME", policies, "Policy to measure; may be given several times",
             [&a](const std::string& text) { a.policies.push_back(text); });
  flags.group("Measurement");
  flags.count("--seed", a.seed, "Seed of weights and data", 0);
  flags.count("--pairs", a.pairs, "Rounds in which all take turns; medians count", 1, 10000);
  flags.count("--steps", a.steps, "Steps that are timed in a round, after two", 1, 1u << 20);
  flags.real("--seconds", a.seconds, "Of each probe of kernels and drives", {0.001, 60});
  add_threads(flags, a.threads);
  flags.json(a.json);
}

void add_nvme(Flags& flags, OffloadBenchArgs& a, const char* without, const char* help) {
  flags.group("Tiers");
  flags.value("--nvme", "DIR[,DIR]", without, help,
              [&a](const std::string& text) { a.nvme = parse_list("--nvme", text); });
}

void finish(const OffloadBenchArgs& a, const char* verb) {
  if (a.model.model.empty()) {
    throw ConfigError(std::string(verb) +
                      ": --model is missing; for example --model gpt2:L8,D512,H8,V8192,T64");
  }
  for (const std::string& spec : a.policies) make_policy(spec);  // throws when it is none
}

}  // namespace

void add_bench_curve(CLI::App& app, BenchCurveArgs& a) {
  Flags flags(app);
  flags.group("Model");
  flags.text("--model", "NAME", a.model.model, "As of train");
  flags.count("--seq", a.model.seq, "Tokens of a sequence", 1, 1u << 24,
              "all positions of the model");
  flags.choice("--dtype", a.model.dtype, std::array<std::string_view, 2>{"fp32", "bf16"},
               "Type of weights, activations and gradients");
  add_nvme(flags, a, "required", "Directories of the NVMe tier, one on each drive");
  flags.real("--model-data", a.model_data.front(),
             "Of weights, remainders and records, the fraction that the device has room for",
             kFraction);
  flags.group("Model");
  flags.value("--x", "X[,X]", "0.125,0.25,0.5,1,2,4,8",
              "Time of computing over time of transfers; the batch is as near as whole sequences "
              "come, by the plan of the first policy",
              [&a](const std::string& text) {
                a.x = parse_reals("--x", text, {.least = 0, .most = 1e6, .open_below = true});
              });
  add_shared(flags, a, "auto, belady and lru");
}

void add_bench_policies(CLI::App& app, BenchPoliciesArgs& a) {
  Flags flags(app);
  add_micro_batch(flags, a.model);
  add_nvme(flags, a, "none: the host has the rest",
           "Directories of the NVMe tier, which has what the device has no room for");
  flags.value("--model-data", "X[,X]", "0.4,0.6,0.8",
              "Of weights, remainders and records, the fractions that the device has room for",
              [&a](const std::string& text) {
                a.model_data = parse_reals("--model-data", text, kFraction);
              });
  add_shared(flags, a, "auto, belady, gemini, lru and static");
}

void finish_bench_curve(const BenchCurveArgs& a) {
  finish(a, "bench curve");
  if (a.nvme.empty()) {
    throw ConfigError("bench curve: --nvme is missing; name a directory on the drive to measure");
  }
}

void finish_bench_policies(const BenchPoliciesArgs& a) {
  finish(a, "bench policies");
  if (a.nvme_rate != 0 && a.nvme.empty()) {
    throw ConfigError("--nvme-rate: there is no NVMe tier; name its directories with --nvme");
  }
}

}  // namespace strata
