#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"
#include "train/verify.hpp"

namespace strata {
namespace {

nlohmann::ordered_json report_json(const VerifyReport& r) {
  nlohmann::ordered_json j;
  j["runs"] = r.runs;
  j["identical"] = r.identical;
  j["first_difference"] = nullptr;
  if (r.first_difference) {
    const Difference& d = *r.first_difference;
    j["first_difference"] = {{"step", d.step},
                             {"tensor", d.tensor},
                             {"element", d.element},
                             {"detail", d.detail},
                             {"run", r.first_difference_run}};
  }
  j["coverage"] = nlohmann::ordered_json::object();
  for (const auto& [name, count] : r.coverage) j["coverage"][name] = count;
  return j;
}

void add(VerifyReport& r, const VerifyCase& c, const VerifyOutcome& o, Output& out) {
  ++r.runs;
  count_coverage(r.coverage, c, o);
  const std::string run = describe(c);
  out.text((o.difference ? "DIFFERENT  " : "identical  ") + run + "  [plan " + o.plan_hash + "]");
  out.text("           numerics " + o.numerics_key);
  for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
    const size_t used = o.peaks[static_cast<size_t>(t)];
    const size_t predicted = o.predicted_peaks[static_cast<size_t>(t)];
    if (used == predicted) continue;
    out.text("           peak of the " + std::string(name_of(t)) + " tier " + std::to_string(used) +
             ", predicted " + std::to_string(predicted));
  }
  if (!o.difference) {
    ++r.identical;
  } else if (!r.first_difference) {
    r.first_difference = o.difference;
    r.first_difference_run = run;
  }
  const EngineStats& s = o.stats;
  const uint64_t moved = s.h2d_bytes + s.d2h_bytes + s.nvme_read_bytes + s.nvme_write_bytes;
  if (moved == 0 && r.idle_run.empty()) r.idle_run = run;
}

VerifyCase given_case(const VerifyArgs& args) {
  VerifyCase c;
  c.budgets = resolve_budgets(args.budget);
  c.session = session_config(args, c.budgets);
  c.schedule = schedule_of(args);
  c.reference_threads = c.session.threads;
  c.evaluate = true;
  c.nvme = {args.budget.nvme, args.budget.nvme_engine, !args.budget.nvme_unchecked};
  return c;
}

}  // namespace

int run_verify(const VerifyArgs& args) {
  Output out(args.json);
  VerifyReport report;
  if (args.random != 0) {
    for (uint64_t i = 0; i < args.random; ++i) {
      const VerifyCase c = random_case(args.seed, i, args.budget.nvme);
      const auto data =
          random_tokens(vocabulary_of(c.session.model), c.session.shape.seq, c.session.seed);
      add(report, c, verify_case(c, *data), out);
    }
  } else {
    const VerifyCase c = given_case(args);
    const uint32_t vocabulary = vocabulary_of(c.session.model);
    const auto data = args.data.empty() ? random_tokens(vocabulary, c.session.shape.seq, args.seed)
                                        : open_data(args, c.session.shape.seq, vocabulary);
    add(report, c, verify_case(c, *data), out);
  }
  std::string text = "\n" + std::to_string(report.identical) + " of " +
                     std::to_string(report.runs) + " runs bit-identical to resident\ncoverage:";
  for (const auto& [name, count] : report.coverage) {
    text += "\n  " + name + ": " + std::to_string(count);
  }
  out.text(text);
  out.result(report_json(report).dump());
  if (report.first_difference) {
    const Difference& d = *report.first_difference;
    throw VerificationFailed("first difference at step " + std::to_string(d.step) + ", " +
                             d.tensor + ", element " + std::to_string(d.element) + ": " + d.detail +
                             "; run: " + report.first_difference_run);
  }
  if (!report.idle_run.empty()) {
    throw ConfigError("a run moved nothing, so it shows nothing: " + report.idle_run +
                      "; give a --host-mem, a lower --device-mem or another --policy");
  }
  return 0;
}

}  // namespace strata
