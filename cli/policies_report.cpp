// What `strata bench policies` found, as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_policies.hpp"
#include "cli/machine_probe.hpp"  // rate_of
#include "cli/output.hpp"
#include "models/registry.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
MeasuredRate over(const std::vector<PolicySample>& samples, Value value) {
  std::vector<double> all;
  all.reserve(samples.size());
  for (const PolicySample& s : samples) all.push_back(value(s));
  return rate_of(std::move(all));
}

Json row_json(const PolicyRow& r) {
  Json j = {{"policy", r.policy},
            {"device_mem", r.device_mem},
            {"model_data", r.model_data},
            {"fits", r.fits}};
  if (!r.fits) {
    for (const char* key : {"measured_bytes", "simulated_bytes", "bound_bytes",
                            "measured_step_seconds", "simulated_step_seconds"}) {
      j[key] = nullptr;
    }
    return j;
  }
  const MeasuredRate measured = r.measured(), ratio = r.ratio();
  j["measured_bytes"] = r.measured_bytes;
  j["simulated_bytes"] = r.simulated_bytes;
  j["bound_bytes"] = r.bound.feasible ? Json(r.bound_bytes()) : Json(nullptr);
  j["measured_step_seconds"] = measured.median;
  j["measured_step_seconds_min"] = measured.least;
  j["measured_step_seconds_max"] = measured.most;
  j["simulated_step_seconds"] = r.simulated().median;
  j["bound_step_seconds"] = r.bound.feasible ? Json(r.bound.step_seconds) : Json(nullptr);
  j["simulated_over_measured"] = ratio.median;
  j["simulated_over_measured_min"] = ratio.least;
  j["simulated_over_measured_max"] = ratio.most;
  j["others_share_max"] = r.others_share();
  return j;
}

}  // namespace

MeasuredRate PolicyRow::measured() const {
  return over(samples, [](const PolicySample& s) { return s.measured; });
}
MeasuredRate PolicyRow::simulated() const {
  return over(samples, [](const PolicySample& s) { return s.simulated; });
}
MeasuredRate PolicyRow::ratio() const {
  return over(samples, [](const PolicySample& s) { return s.simulated / s.measured; });
}

double PolicyRow::bound_bytes() const noexcept {
  return bound.bytes.h2d + bound.bytes.d2h + bound.bytes.nvme_read + bound.bytes.nvme_write;
}

double PolicyRow::others_share() const noexcept {
  double most = 0;
  for (const PolicySample& s : samples) most = std::max(most, s.others_share.value_or(0));
  return most;
}

std::string policies_table(std::span<const PolicyRow> all) {
  std::vector<std::vector<std::string>> rows = {{"policy", "device", "bytes", "simulated", "bound",
                                                 "step s (least-most)", "simulated s", "bound s",
                                                 "simulated / measured", "others"}};
  const auto bytes = [](double n) { return format_bytes(static_cast<uint64_t>(n)); };
  for (const PolicyRow& r : all) {
    if (!r.fits) {
      rows.push_back({r.policy, format_bytes(r.device_mem), "does not fit"});
      continue;
    }
    const MeasuredRate measured = r.measured(), ratio = r.ratio();
    rows.push_back(
        {r.policy, format_bytes(r.device_mem), bytes(r.measured_bytes), bytes(r.simulated_bytes),
         r.bound.feasible ? bytes(r.bound_bytes()) : "-",
         fmt::format("{:.4f} ({:.4f}-{:.4f})", measured.median, measured.least, measured.most),
         fmt::format("{:.4f}", r.simulated().median),
         r.bound.feasible ? fmt::format("{:.4f}", r.bound.step_seconds) : "-",
         fmt::format("{:.3f} ({:.3f}-{:.3f})", ratio.median, ratio.least, ratio.most),
         fmt::format("{:.0f} %", 100 * r.others_share())});
  }
  return aligned_table(rows);
}

std::string policies_json(const BenchPoliciesArgs& a, std::span<const PolicyRow> all) {
  Json rows = Json::array();
  double others = 0;
  for (const PolicyRow& r : all) {
    rows.push_back(row_json(r));
    others = std::max(others, r.others_share());
  }
  const Json j = {{"rows", rows},
                  {"throttled", a.nvme_rate != 0},
                  {"checksums", !a.nvme_unchecked},
                  {"model", model_name(a.model.model)},
                  {"batch", a.model.batch},
                  {"seq", a.model.seq},
                  {"accum", a.model.accum},
                  {"dtype", name_of(a.model.dtype)},
                  {"threads", a.threads},
                  {"pairs", a.pairs},
                  {"steps", a.steps},
                  {"others_share_max", others}};
  return j.dump();
}

}  // namespace strata
