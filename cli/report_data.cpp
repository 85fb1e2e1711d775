#include "cli/report_data.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "cli/chrome_trace.hpp"
#include "cli/machine_probe.hpp"
#include "cli/report_step.hpp"
#include "cli/sizes.hpp"
#include "cli/stall_report.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostMetricBytes = uint64_t{1} << 30, kMostTraceBytes = uint64_t{1} << 30;
/// Recorded of a simulation, after those that lead to the steady state.
constexpr uint32_t kWarmUp = 3, kSimulated = 2;
constexpr const char* kColumns[] = {"loss",    "lr",      "grad_norm", "tokens_per_second",
                                    "step_ms", "stall_ms"};

/// A file of a run's folder; empty: it is not there.
std::string optional_text(const std::string& path, uint64_t most) {
  std::error_code error;
  return std::filesystem::exists(path, error) ? read_text(watched_files(), path, most) : "";
}

Json parse(const std::string& text, const std::string& where, const char* otherwise) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception&) {
    throw ConfigError(where + " is damaged; " + otherwise);
  }
}

/// Sums of a column's numbers, of so many steps to a point.
class Column {
 public:
  explicit Column(size_t per_point) : per_point_(per_point) {}
  void add(const Json& line, const char* key) {
    if (line.contains(key) && line[key].is_number()) {
      sum_ += line[key].get<double>();
      ++numbers_;
    }
    if (++lines_ % per_point_ == 0) end_point();
  }
  Json take() {
    if (lines_ % per_point_ != 0) end_point();
    return std::move(points_);
  }

 private:
  void end_point() {
    points_.push_back(numbers_ == 0 ? Json(nullptr) : Json(sum_ / static_cast<double>(numbers_)));
    sum_ = 0;
    numbers_ = 0;
  }

  size_t per_point_, lines_ = 0, numbers_ = 0;
  double sum_ = 0;
  Json points_ = Json::array();
};

/// The run as it was planned, and what was found of it.
class Gatherer {
 public:
  explicit Gatherer(const ReportArgs& args)
      : args_(args),
        file_(read_run_file(args.run)),
        workload_(session_config(file_)),
        plan_(workload_.plan(file_.budgets)),
        tokens_(workload_.config().shape.rows() * workload_.config().shape.micro_batches) {
    if (!plan_.fits) throw ConfigError(run_file_in(args.run) + ": " + describe_shortfall(plan_));
    rates_ = workload_.plan_input(file_.budgets).rates;
    if (!args.machine.empty()) {
      rates_ = rates_of(load_machine(args.machine), workload_.config().dtype);
    }
  }

  /// Whose rates links are compared with.
  std::string rates_from() const {
    std::string file = args_.machine;
    for (const auto& [flag, value] : file_.flags) {
      if (file.empty() && flag == "--machine") file = value;
    }
    return file.empty() ? "nominal" : "of " + file;
  }

  Json gather() {
    Json j = describe();
    j["metrics"] = metric_columns(read_metrics(), metrics_in(args_.run));
    const std::string stalls = optional_text(stalls_in(args_.run), kMostMetricBytes);
    j["measured"] = nullptr;
    if (!stalls.empty()) {
      j["measured"] = read_stalls(stalls);
    }
    j["timeline"] = timeline();
    j["predicted"] = predicted_step(prediction_);
    j["links"] = links();
    const bool measured = !j["measured"].is_null();
    j["verdict"] = verdict(j[measured ? "measured" : "predicted"], measured);
    return j;
  }

 private:
  /// In a line, what a step waits for.
  std::string verdict(const Json& step, bool measured) const {
    const double seconds = number(step, "step_seconds");
    double stalled = 0, most = 0;
    std::string cause;
    for (const auto& [name, value] : step.at("stalls").items()) {
      const double s = value.get<double>();
      stalled += s;
      if (s > most) cause = name;
      most = std::max(most, s);
    }
    const std::string tokens =
        seconds > 0 ? fmt::format("{:.0f} tokens/s, ", static_cast<double>(tokens_) / seconds) : "";
    if (stalled < 0.02 * seconds) {
      return fmt::format("{}{}compute bound: {:.1f} % of a step is not compute's",
                         measured ? "" : "predicted: ", tokens, 100 * stalled / seconds);
    }
    return fmt::format(
        "{}{}{:.1f} % of a step of {:.4g} s is not compute's, most of it {} ({:.1f} %)",
        measured ? "" : "predicted: ", tokens, 100 * stalled / seconds, seconds, described(cause),
        100 * most / seconds);
  }

  static std::string described(const std::string& cause) {
    if (cause == "sharing") return "others' use of the cores";
    if (cause == "issuer") return "time in which nothing was issued";
    return "waits for " + cause;
  }

  static double number(const Json& j, const char* key) {
    return j.at(key).is_number() ? j.at(key).get<double>() : 0;
  }

  /// What is in it must be what the page takes it for.
  Json read_stalls(const std::string& text) const {
    const char* const otherwise = "remove it, or train again";
    Json j = parse(text, stalls_in(args_.run), otherwise);
    try {
      for (const char* key : {"steps", "step_seconds", "compute_seconds"}) {
        if (!j.at(key).is_number()) throw ConfigError("");
      }
      for (const auto& [name, seconds] : j.at("stalls").items()) (void)seconds.get<double>();
      for (const Json& c : j.at("chunks")) {
        (void)c.at("chunk").get<uint64_t>();
        (void)c.at("tensors").get<std::string>();
        (void)c.at("seconds").get<double>();
      }
      for (const Json& a : j.at("advice")) (void)a.at("text").get<std::string>();
    } catch (const std::exception&) {
      throw ConfigError(stalls_in(args_.run) + " is not what train writes; " + otherwise);
    }
    return j;
  }

  static RunFile read_run_file(const std::string& run) {
    std::error_code error;
    if (!std::filesystem::is_directory(run, error)) {
      throw ConfigError("there is no folder " + run + "; name the folder that was --out of a run");
    }
    const std::string text = optional_text(run_file_in(run), 1 << 20);
    if (text.empty()) {
      throw ConfigError("there is no " + run_file_in(run) +
                        ", which a run writes when it begins; name the folder that was --out of "
                        "strata train");
    }
    return parse_run_file(text, run_file_in(run));
  }

  std::string read_metrics() const {
    std::string text = optional_text(metrics_in(args_.run), kMostMetricBytes);
    if (text.empty()) {
      throw ConfigError("there is no step in " + metrics_in(args_.run) + " yet; train first");
    }
    return text;
  }

  Json describe() const {
    const SessionConfig& c = workload_.config();
    std::string command = "strata train";
    for (const auto& [flag, value] : file_.flags) {
      command += " " + flag + (value.empty() ? "" : " " + value);
    }
    Json tiers = Json::array();
    for (size_t t = 0; t < kTiers; ++t) {
      const TierReport& tier = plan_.tiers[t];
      if (tier.budget == 0 && tier.peak == 0) continue;
      tiers.push_back({{"tier", name_of(static_cast<Tier>(t))},
                       {"budget", tier.budget},
                       {"planned_peak", tier.peak}});
    }
    return {{"format", 1},
            {"run", std::filesystem::path(args_.run).lexically_normal().string()},
            {"model", c.model},
            {"dtype", name_of(c.dtype)},
            {"policy", c.policy},
            {"planned_by", plan_.plan.policy},
            {"command", command},
            {"threads", c.threads},
            {"tokens", tokens_},
            {"chunks", workload_.layout().chunks()},
            {"chunk_bytes", workload_.shape().unit_bytes()},
            {"state_bytes", workload_.state_bytes()},
            {"tiers", tiers},
            {"rates", rates_from()}};
  }

  /// Of a recorded step, else of a simulated one. Sets the prediction.
  Json timeline() {
    Json simulated = simulated_trace();
    const std::string text =
        args_.simulate ? "" : optional_text(trace_in(args_.run), kMostTraceBytes);
    if (text.empty()) return report_step(simulated);
    constexpr const char* kOtherwise = "report --simulate shows a simulated step instead";
    const Json trace = parse(text, trace_in(args_.run), kOtherwise);
    try {
      return report_step(trace);
    } catch (const nlohmann::json::exception&) {
      throw ConfigError(trace_in(args_.run) + " is not what train writes; " + kOtherwise);
    }
  }

  Json simulated_trace() {
    const PlanInput of_run = workload_.plan_input(file_.budgets);
    const PlanInput in = {of_run.layout,  of_run.shape,   of_run.programs, *plan_.policy,
                          of_run.updater, of_run.budgets, of_run.clip,     rates_};
    const Program& program = workload_.program(Mode::train);
    Timeline timeline(program, in.shape, in.layout.chunks(), {kWarmUp, kSimulated});
    Ledger ledger(file_.budgets.bytes);
    std::vector<Reservation> external;
    for (size_t t = 0; t < kTiers; ++t) {
      external.push_back(
          ledger.reserve(static_cast<Tier>(t), Category::external, file_.budgets.external[t]));
    }
    prediction_ = simulate(in, plan_.plan, ledger, {kWarmUp, kSimulated + 1}, nullptr, &timeline);
    return chrome_trace(timeline, {program, in.layout, in.shape, "simulated", Json::object()});
  }

  Json links() const {
    const std::array<double, kResources> rates = {
        0, rates_.h2d_bytes_per_second,       rates_.d2h_bytes_per_second,
        0, rates_.nvme_read_bytes_per_second, rates_.nvme_write_bytes_per_second};
    Json j = Json::object();
    for (size_t r = 0; r < kResources; ++r) {
      if (rates[r] > 0) j[name_of(static_cast<Resource>(r))] = rates[r];
    }
    return j;
  }

  const ReportArgs& args_;
  RunFile file_;
  Workload workload_;
  PlanResult plan_;
  uint64_t tokens_;  // of a step
  VirtualRates rates_;
  Prediction prediction_;
};

}  // namespace

Json metric_columns(const std::string& lines, const std::string& where, size_t most_points) {
  std::vector<Json> steps;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    Json j = Json::parse(line, nullptr, false);
    if (j.is_object() && j.contains("step") && j["step"].is_number_unsigned()) {
      steps.push_back(std::move(j));
    }
  }
  if (steps.empty()) throw ConfigError("there is no step in " + where);
  const size_t per_point = (steps.size() + most_points - 1) / most_points;
  Json out = {{"steps", steps.size()}, {"steps_per_point", per_point}};
  out["step"] = Json::array();
  for (size_t i = 0; i < steps.size(); i += per_point) {
    out["step"].push_back(steps[std::min(i + per_point, steps.size()) - 1]["step"]);
  }
  for (const char* key : kColumns) {
    Column column(per_point);
    for (const Json& s : steps) column.add(s, key);
    out[key] = column.take();
  }
  out["validation"] = Json::array();
  out["used_peak"] = Json::object();
  for (const Json& s : steps) {
    if (s.contains("validation_loss") && s["validation_loss"].is_number()) {
      out["validation"].push_back({s["step"], s["validation_loss"]});
    }
  }
  for (size_t t = 0; t < kTiers; ++t) {
    const char* const tier = name_of(static_cast<Tier>(t));
    const std::string key = fmt::format("used_peak_{}_bytes", tier);
    if (steps.back().contains(key)) out["used_peak"][tier] = steps.back()[key];
  }
  return out;
}

Json predicted_step(const Prediction& p) {
  StallReport r;
  r.step = {p.step_seconds,    p.stalls,          p.work, p.h2d_bytes, p.d2h_bytes,
            p.nvme_read_bytes, p.nvme_write_bytes};
  return stall_json(r);
}

Json report_data(const ReportArgs& args) { return Gatherer(args).gather(); }

}  // namespace strata
