#include "cli/run_setup.hpp"

#include <algorithm>

#include "cli/machine_probe.hpp"
#include "models/gpt2_config.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/files.hpp"
#include "runtime/files/watched_files.hpp"
#include "runtime/memory.hpp"
#include "runtime/topology.hpp"
#include "train/data_files.hpp"
#include "train/data_shards.hpp"
#include "train/data_text.hpp"

namespace strata {

uint32_t resolve_threads(uint32_t given) { return given != 0 ? given : default_threads(); }

uint32_t vocabulary_of(const std::string& model) { return parse_gpt2(model).vocabulary; }

SessionConfig session_config(const RunArgs& args) {
  const Gpt2Config shape = parse_gpt2(args.model.model);
  SessionConfig c;
  c.model = args.model.model;
  c.shape = {args.model.batch, args.model.seq != 0 ? args.model.seq : shape.positions,
             args.model.accum};
  c.dtype = args.model.dtype;
  c.recompute = args.model.recompute;
  c.optimizer = args.optimizer.config;
  c.clip = args.optimizer.clip;
  c.seed = args.seed;
  c.policy = args.budget.policy;
  c.objective = args.budget.objective;
  c.overlap = args.budget.overlap;
  c.chunk_bytes = args.budget.chunk_bytes;
  c.threads = resolve_threads(args.budget.threads);
  if (!args.budget.machine.empty()) {
    c.rates = rates_of(load_machine(args.budget.machine), c.dtype);
  }
  return c;
}

SessionConfig session_config(const RunArgs& args, const Budgets& budgets) {
  SessionConfig c = session_config(args);
  c.order = args.model.order ? *args.model.order : choose_order(c, budgets);
  return c;
}

LrSchedule schedule_of(const RunArgs& args) {
  return {args.optimizer.lr, args.optimizer.min_lr, args.optimizer.warmup, args.steps};
}

void charge_external(Budgets& b, size_t bytes) {
  const bool has_host = b.bytes[static_cast<size_t>(Tier::host)] != 0;
  b.external[static_cast<size_t>(has_host ? Tier::host : Tier::device)] += bytes;
}

Budgets resolve_budgets(const BudgetArgs& args, bool elsewhere) {
  // Steps of 8 MiB, so that the same command gets the same verdict each time.
  constexpr size_t kStep = 8 << 20;
  const size_t available = available_host_memory();
  Budgets b;
  size_t& device = b.bytes[static_cast<size_t>(Tier::device)];
  size_t& host = b.bytes[static_cast<size_t>(Tier::host)];
  host = args.host_mem ? args.host_mem->resolve("--host-mem", available) : 0;
  device = args.device_mem ? args.device_mem->resolve("--device-mem", available)
                           : std::min(Size::percent(80).resolve("--device-mem", available),
                                      available - std::min(available, host));
  if (device + host > available && !elsewhere) {
    throw ConfigError("--device-mem (" + format_bytes(device) + ") and --host-mem (" +
                      format_bytes(host) + ") are one memory on this machine and exceed the " +
                      format_bytes(available) + " available; lower one of them");
  }
  const size_t external = (resident_bytes() + kStep - 1) / kStep * kStep;
  charge_external(b, external);
  if (!args.nvme.empty()) {
    // Units go round the directories, so the fullest decides.
    uint64_t free = UINT64_MAX;
    for (const std::string& d : args.nvme) free = std::min(free, real_files().free_bytes(d));
    free *= args.nvme.size();
    const Size size = args.nvme_mem.value_or(Size::percent(80));
    b.bytes[static_cast<size_t>(Tier::nvme)] = size.resolve("--nvme-mem", free);
  } else if (args.nvme_mem && elsewhere) {
    b.bytes[static_cast<size_t>(Tier::nvme)] = args.nvme_mem->resolve("--nvme-mem", 0);
  } else if (args.nvme_mem) {
    throw ConfigError("--nvme-mem: there is no NVMe tier; name its directories with --nvme");
  }
  return b;
}

std::unique_ptr<TokenSource> open_data(const RunArgs& args, uint32_t seq, uint64_t vocabulary) {
  const std::vector<std::string> paths = resolve_data_files(args.data);
  if (are_shards(paths))
    return std::make_unique<ShardData>(paths, seq, args.seed, vocabulary, watched_files());
  return std::make_unique<TextData>(paths, seq, args.seed, vocabulary, watched_files());
}

}  // namespace strata
