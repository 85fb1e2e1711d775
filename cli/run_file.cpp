#include "cli/run_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/run_setup.hpp"
#include "cli/run_source.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint32_t kFormat = 1;

Json by_tier(const std::array<size_t, kTiers>& bytes) {
  Json j;
  for (size_t t = 0; t < kTiers; ++t) j[name_of(static_cast<Tier>(t))] = bytes[t];
  return j;
}

std::array<size_t, kTiers> tiers_of(const Json& j) {
  std::array<size_t, kTiers> bytes{};
  for (size_t t = 0; t < kTiers; ++t) bytes[t] = j.at(name_of(static_cast<Tier>(t)));
  return bytes;
}

}  // namespace

std::string run_file_in(const std::string& run) { return run + "/run.json"; }
std::string metrics_in(const std::string& run) { return run + "/metrics.jsonl"; }
std::string stalls_in(const std::string& run) { return run + "/stalls.json"; }
std::string trace_in(const std::string& run) { return run + "/trace.json"; }

std::string run_file_text(const RunFile& f) {
  Json flags = Json::array();
  for (const auto& [flag, value] : f.flags) flags.push_back({flag, value});
  const Json j = {{"format", kFormat},
                  {"flags", flags},
                  {"budgets", by_tier(f.budgets.bytes)},
                  {"external", by_tier(f.budgets.external)},
                  {"threads", f.threads},
                  {"schedule", f.order == MicroBatchOrder::vertical ? "vertical" : "horizontal"}};
  return j.dump(2) + "\n";
}

RunFile parse_run_file(const std::string& text, const std::string& where) {
  try {
    const Json j = Json::parse(text);
    if (j.at("format") != kFormat) {
      throw ConfigError(where + " is of another version of strata; report it with that");
    }
    RunFile f;
    for (const Json& pair : j.at("flags")) f.flags.emplace_back(pair.at(0), pair.at(1));
    f.budgets = {tiers_of(j.at("budgets")), tiers_of(j.at("external"))};
    f.threads = j.at("threads");
    f.order =
        j.at("schedule") == "vertical" ? MicroBatchOrder::vertical : MicroBatchOrder::horizontal;
    if (f.threads == 0 || f.threads > 4096) throw ConfigError(where + " has no number of threads");
    return f;
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError(
        fmt::format("{} is damaged ({}); it is written when a run begins", where, e.what()));
  }
}

SessionConfig session_config(const RunFile& f) {
  Manifest m;
  m.flags = f.flags;
  SessionConfig c = session_config(train_args_of(m, {}));
  c.threads = f.threads;
  c.order = f.order;
  return c;
}

}  // namespace strata
