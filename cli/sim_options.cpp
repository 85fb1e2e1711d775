#include "cli/sim_options.hpp"

#include <algorithm>

#include "cli/flag_groups.hpp"
#include "offload/trace_file.hpp"

namespace strata {

void add_sim(CLI::App& app, SimArgs& args) {
  Flags flags(app);
  flags.group("Trace");
  flags.text("TRACE", "", args.trace, "A trace: what `strata trace` writes, or your own");
  flags.each("--tokens", "N", "as traced",
             "Tokens of a micro-batch; costs and values grow in proportion",
             [&args](const std::string& text) {
               args.tokens.push_back(parse_count("--tokens", text, 1, TraceFile::kMostBytes));
             });
  flags.count("--accum", args.accum, "Micro-batches of a step", 1, 1u << 20);
  add_recompute(flags, args.recompute);
  flags.choice("--schedule", args.order, std::array<std::string_view, 2>{"horizontal", "vertical"},
               "Order of micro-batches: one after the other, or all of a block together");
  flags.group("Machine");
  flags.text("--machine", "FILE", args.machine, "Machine file with the rates; without, nominal");
  flags.each("--device-mem", "BYTES", "required", "Budget of the device tier",
             [&args](const std::string& text) {
               args.device_mem.push_back(parse_bytes("--device-mem", text));
             });
  flags.bytes("--host-mem", args.host_mem, "Budget of the host tier");
  flags.bytes("--nvme-mem", args.nvme_mem, "Budget of the NVMe tier");
  flags.group("Plan");
  flags.each("--policy", "NAME", "auto", "Offload policy; `strata policies` lists them",
             [&args](const std::string& text) { args.policies.push_back(text); });
  add_objective(flags, args.objective);
  add_overlap(flags, args.overlap);
  add_chunk_size(flags, args.chunk_bytes);
  flags.choice("--optimizer", args.optimizer.kind, std::array<std::string_view, 2>{"adamw", "sgd"},
               "AdamW, or SGD without momentum");
  flags.real("--clip", args.clip, "Largest global gradient norm; 0 is off",
             {0, std::numeric_limits<double>::infinity()});
  flags.count("--steps", args.steps, "Steps that are simulated and averaged, after three", 1,
              1u << 20);
  flags.flag("--no-bound", args.no_bound,
             "Leave out the bound, which takes long for traces of more than some 10,000 ops");
  flags.group("Output");
  flags.text("--chrome-trace", "FILE", args.chrome_trace,
             "Write two simulated steps as a trace for chrome://tracing and ui.perfetto.dev");
  flags.choice("--format", args.format,
               std::array<std::string_view, 4>{"text", "markdown", "csv", "json"},
               "How results are written");
  flags.json(args.json);
  app.footer(
      "--policy, --device-mem and --tokens may be given several times: then every combination is "
      "simulated.\nNothing is allocated: memory sizes may exceed this machine's.");
}

void finish_sim(const SimArgs& args) {
  if (args.trace.empty()) {
    throw ConfigError(
        "sim: TRACE is missing; write one with 'strata trace', or see its format in "
        "docs/trace-format.md");
  }
  if (args.device_mem.empty()) {
    throw ConfigError("sim: --device-mem is missing; for example --device-mem 24GiB");
  }
  const size_t runs = args.device_mem.size() * std::max<size_t>(args.policies.size(), 1) *
                      std::max<size_t>(args.tokens.size(), 1);
  if (!args.chrome_trace.empty() && runs > 1) {
    throw ConfigError(
        "--chrome-trace: takes one simulation; give one --policy, --device-mem and --tokens");
  }
  if (args.json && args.format != SimFormat::text && args.format != SimFormat::json) {
    throw ConfigError("--json: another --format is given too; leave out one of them");
  }
}

void add_report(CLI::App& app, ReportArgs& args) {
  Flags flags(app);
  flags.text("RUN", "", args.run, "Folder of a run: its --out");
  flags.text("--out,-o", "FILE", args.out, "Page to write [RUN/report.html]");
  flags.text("--machine", "FILE", args.machine, "Machine file whose rates links are compared with");
  flags.flag("--simulate", args.simulate, "Show a simulated step, though the run recorded some");
  flags.json(args.json);
}

}  // namespace strata
