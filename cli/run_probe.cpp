#include <fmt/format.h>

#include "cli/machine_probe.hpp"
#include "cli/output.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"
#include "runtime/files/file_io.hpp"

namespace strata {
namespace {

std::string table(const Machine& m) {
  std::vector<std::vector<std::string>> rows = {{"", "median", "least", "most"}};
  for (const MachineRate& r : machine_rates()) {
    const MeasuredRate& rate = m.*r.rate;
    if (rate.median <= 0) continue;
    std::vector<std::string> row = {std::string(r.key)};
    for (const double x : {rate.median, rate.least, rate.most}) {
      row.push_back(fmt::format("{:.3g}", x));
    }
    rows.push_back(row);
  }
  return aligned_table(rows) + fmt::format("\nA launch takes {:.2g} us.", m.latency_seconds * 1e6);
}

}  // namespace

int run_probe(const ProbeArgs& args) {
  Output out(args.json);
  ProbeOptions o;
  o.model = args.model.model;
  if (args.model.seq != 0) o.seq = args.model.seq;
  o.batch = args.model.batch;
  o.threads = resolve_threads(args.threads);
  o.nvme = args.nvme;
  o.nvme_bytes = args.nvme_bytes;
  o.block_bytes = args.block_bytes;
  o.array_bytes = args.array_bytes;
  o.samples = args.samples;
  o.seconds = args.seconds;
  const Machine m =
      probe_machine(o, [&](const char* what) { out.text(fmt::format("measuring {}", what)); });
  out.text(table(m));
  const std::string text = write_machine(m);
  if (!args.out.empty()) {
    replace_text(real_files(), args.out, text);
    out.text("written to " + args.out);
  }
  out.result(text.substr(0, text.size() - 1));
  return 0;
}

}  // namespace strata
