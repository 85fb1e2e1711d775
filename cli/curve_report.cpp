#include "cli/curve_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/machine_probe.hpp"  // rate_of
#include "cli/output.hpp"
#include "models/registry.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

std::string spread(const MeasuredRate& r) {
  return fmt::format("{:.3f} ({:.3f}-{:.3f})", r.median, r.least, r.most);
}

Json point_json(const CurvePoint& p) {
  const MeasuredRate ratio = p.of(&CurveSample::ratio), retained = p.of(&CurveSample::retained),
                     step = p.of(&CurveSample::step), roofline = p.of(&CurveSample::roofline);
  const auto fio = p.over_fio();
  return {{"tokens", p.tokens},
          {"x", number(p.x)},
          {"wanted_x", p.wanted_x},
          {"policy", p.policy},
          {"step_seconds", step.median},
          {"step_seconds_min", step.least},
          {"step_seconds_max", step.most},
          {"roofline_seconds", roofline.median},
          {"roofline_seconds_min", roofline.least},
          {"roofline_seconds_max", roofline.most},
          {"ratio", ratio.median},
          {"ratio_min", ratio.least},
          {"ratio_max", ratio.most},
          {"retained", retained.median},
          {"retained_min", retained.least},
          {"retained_max", retained.most},
          {"compute_seconds", p.of(&CurveSample::compute).median},
          {"update_seconds", p.of(&CurveSample::update).median},
          {"nvme_seconds", p.of(&CurveSample::nvme).median},
          {"resident_seconds", p.of(&CurveSample::resident).median},
          {"nvme_read_bytes", p.nvme_read_bytes},
          {"nvme_write_bytes", p.nvme_write_bytes},
          {"device_bytes", p.device_bytes},
          {"nvme_over_fio", fio ? Json(fio->median) : Json(nullptr)},
          {"others_share_max", p.others_share()}};
}

}  // namespace

MeasuredRate CurvePoint::of(double (CurveSample::*value)() const noexcept) const {
  std::vector<double> all;
  for (const CurveSample& s : samples) all.push_back((s.*value)());
  return rate_of(std::move(all));
}

MeasuredRate CurvePoint::of(double CurveSample::*value) const {
  std::vector<double> all;
  for (const CurveSample& s : samples) all.push_back(s.*value);
  return rate_of(std::move(all));
}

std::optional<MeasuredRate> CurvePoint::over_fio() const {
  std::vector<double> all;
  for (const CurveSample& s : samples) {
    if (s.over_fio) all.push_back(*s.over_fio);
  }
  return all.empty() ? std::nullopt : std::optional(rate_of(std::move(all)));
}

double CurvePoint::others_share() const noexcept {
  double most = 0;
  for (const CurveSample& s : samples) most = std::max(most, s.others_share.value_or(0));
  return most;
}

const CurvePoint* most_nvme_bound(std::span<const CurvePoint> points) {
  const CurvePoint* best = nullptr;
  std::string_view first;
  for (const CurvePoint& p : points) {
    if (!p.over_fio()) continue;
    if (first.empty()) first = p.policy;
    if (p.policy == first && (best == nullptr || p.x < best->x)) best = &p;
  }
  return best;
}

std::string curve_line(const CurvePoint& p) {
  const auto fio = p.over_fio();
  return fmt::format(
      "x {:.3f} (wanted {}), {} tokens, {}: step {:.4f} s, kernels {:.4f} + {:.4f} s, drive {:.4f} "
      "s; over roofline {}; retained {}{}; others took up to {:.0f} % of the CPUs",
      p.x, p.wanted_x, p.tokens, p.policy, p.of(&CurveSample::step).median,
      p.of(&CurveSample::compute).median, p.of(&CurveSample::update).median,
      p.of(&CurveSample::nvme).median, spread(p.of(&CurveSample::ratio)),
      spread(p.of(&CurveSample::retained)), fio ? "; drive over fio " + spread(*fio) : "",
      100 * p.others_share());
}

std::string curve_table(std::span<const CurvePoint> points) {
  std::vector<std::vector<std::string>> rows = {{"x", "tokens", "policy", "step s", "roofline s",
                                                 "ratio (least-most)", "retained (least-most)",
                                                 "over fio", "others"}};
  for (const CurvePoint& p : points) {
    const auto fio = p.over_fio();
    rows.push_back({fmt::format("{:.3f}", p.x), fmt::format("{}", p.tokens), p.policy,
                    fmt::format("{:.4f}", p.of(&CurveSample::step).median),
                    fmt::format("{:.4f}", p.of(&CurveSample::roofline).median),
                    spread(p.of(&CurveSample::ratio)), spread(p.of(&CurveSample::retained)),
                    fio ? spread(*fio) : "-", fmt::format("{:.0f} %", 100 * p.others_share())});
  }
  return aligned_table(rows);
}

std::string curve_json(const BenchCurveArgs& a, std::span<const CurvePoint> points) {
  Json all = Json::array();
  double others = 0;
  for (const CurvePoint& p : points) {
    all.push_back(point_json(p));
    others = std::max(others, p.others_share());
  }
  const CurvePoint* const bound = most_nvme_bound(points);
  const Json j = {{"points", all},
                  {"nvme_over_fio", bound ? Json(bound->over_fio()->median) : Json(nullptr)},
                  {"nvme_over_fio_x", bound ? number(bound->x) : Json(nullptr)},
                  {"throttled", a.nvme_rate != 0},
                  {"checksums", !a.nvme_unchecked},
                  {"nvme_rate", a.nvme_rate != 0 ? Json(a.nvme_rate) : Json(nullptr)},
                  {"model", model_name(a.model.model)},
                  {"seq", a.model.seq},
                  {"accum", a.model.accum},
                  {"dtype", name_of(a.model.dtype)},
                  {"model_data", a.model_data.front()},
                  {"threads", a.threads},
                  {"pairs", a.pairs},
                  {"steps", a.steps},
                  {"others_share_max", others}};
  return j.dump();
}

}  // namespace strata
