#include "cli/bench_options.hpp"

#include "cli/flag_groups.hpp"

namespace strata {
namespace {

void add_pairs(Flags& flags, uint32_t& pairs) {
  flags.count("--pairs", pairs, "Alternating pairs of measurements; the median counts", 1, 10000);
}

}  // namespace

void add_bench_step(CLI::App& app, BenchStepArgs& args) {
  Flags flags(app);
  add_model(flags, args.model, false);
  add_optimizer(flags, args.optimizer, false);
  flags.group("Measurement");
  flags.count("--seed", args.seed, "Seed of weights and data", 0);
  add_pairs(flags, args.pairs);
  add_threads(flags, args.threads);
  flags.json(args.json);
}

void add_bench_nvme(CLI::App& app, BenchNvmeArgs& args) {
  Flags flags(app);
  flags.group("Measurement");
  flags.text("DIR", "", args.directory, "Directory on the drive to measure");
  flags.bytes("--file-size", args.file_bytes, "Bytes of the file, written through once");
  flags.bytes("--block-size", args.block_bytes, "Bytes of a transfer");
  flags.count("--depth", args.depth, "Transfers in flight", 1, 1024);
  add_pairs(flags, args.pairs);
  flags.real("--seconds", args.seconds, "Of one measurement", {0.01, 3600});
  flags.json(args.json);
}

void add_bench_adam(CLI::App& app, BenchAdamArgs& args) {
  Flags flags(app);
  flags.group("Measurement");
  flags.bytes("--bytes", args.bytes, "Bytes of the arrays of each dtype, at least 1 MiB");
  add_pairs(flags, args.pairs);
  add_threads(flags, args.threads);
  flags.json(args.json);
}

}  // namespace strata
