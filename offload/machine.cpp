#include "offload/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr size_t kMostBytes = 1 << 16;

[[noreturn]] void refuse(std::string_view file, const std::string& why) {
  throw ConfigError(fmt::format("{}: {}; docs/machine-format.md has the format", file, why));
}

/// One object of the file: values of the types expected.
class Fields {
 public:
  Fields(const Json& j, std::string_view file, std::string where)
      : j_(j), file_(file), where_(std::move(where)) {
    if (!j.is_object()) refuse(file_, fmt::format("{} is not an object", where_));
  }

  const Json* find(std::string_view key) const {
    const auto it = j_.find(key);
    return it == j_.end() ? nullptr : &*it;
  }
  const Json& at(std::string_view key) const {
    const Json* j = find(key);
    if (j == nullptr) refuse(file_, fmt::format("{} has no '{}'", where_, key));
    return *j;
  }
  std::string text(std::string_view key, bool required) const {
    const Json* j = required ? &at(key) : find(key);
    if (j == nullptr) return {};
    if (!j->is_string()) refuse(file_, fmt::format("'{}' is not a text", key));
    return j->get<std::string>();
  }
  /// Refuses every other key.
  void only(std::span<const std::string_view> keys) const {
    for (const auto& [key, value] : j_.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      refuse(file_, fmt::format("{} has an unknown key '{}'", where_, key));
    }
  }

 private:
  const Json& j_;
  std::string_view file_;
  std::string where_;
};

double read_number(const Json& j, std::string_view key, std::string_view file, double least) {
  const double x = j.is_number() ? j.get<double>() : std::nan("");
  if (std::isfinite(x) && x >= least) return x;
  refuse(file,
         fmt::format("'{}' is not a number {}", key, least > 0 ? "above 0" : "of at least 0"));
}

constexpr double kSmallest = 1e-30;

MeasuredRate read_rate(const Json& j, std::string_view key, std::string_view file) {
  if (j.is_number()) {
    const double x = read_number(j, key, file, kSmallest);
    return {x, x, x};
  }
  const Fields f(j, file, fmt::format("rate '{}'", key));
  const auto number = [&](std::string_view k) { return read_number(f.at(k), k, file, kSmallest); };
  const MeasuredRate r = {number("median"), number("least"), number("most")};
  static constexpr std::array<std::string_view, 3> kKeys = {"median", "least", "most"};
  f.only(kKeys);
  if (r.least > r.median || r.median > r.most) {
    refuse(file, fmt::format("of rate '{}' the median is not between least and most", key));
  }
  return r;
}

}  // namespace

std::span<const MachineRate> machine_rates() noexcept {
  static constexpr std::array<MachineRate, 9> kRates = {{
      {"gemm_fp32_flops_per_second", &Machine::gemm_fp32, true},
      {"gemm_bf16_flops_per_second", &Machine::gemm_bf16, true},
      {"memory_bytes_per_second", &Machine::memory, true},
      {"update_bytes_per_second", &Machine::update, true},
      {"h2d_bytes_per_second", &Machine::h2d, true},
      {"d2h_bytes_per_second", &Machine::d2h, true},
      {"nvme_read_bytes_per_second", &Machine::nvme_read, false},
      {"nvme_write_bytes_per_second", &Machine::nvme_write, false},
      {"nvme_mixed_bytes_per_second", &Machine::nvme_mixed, false},
  }};
  return kRates;
}

Machine read_machine(std::string_view text, std::string_view file) {
  if (text.size() > kMostBytes) refuse(file, "is no machine file, which has a few hundred bytes");
  Json j;
  try {
    j = Json::parse(text);
  } catch (const Json::exception& e) {
    refuse(file, fmt::format("is not JSON: {}", e.what()));
  }
  const Fields f(j, file, "the file");
  static constexpr std::array<std::string_view, 8> kKeys = {
      "strata_machine",  "name", "note", "date", "threads", "one_processor",
      "latency_seconds", "rates"};
  if (f.at("strata_machine") != kVersion) {
    refuse(file,
           fmt::format("'strata_machine' is not {}, the version this program reads", kVersion));
  }
  Machine m;
  m.name = f.text("name", true);
  m.note = f.text("note", false);
  m.date = f.text("date", false);
  if (const Json* t = f.find("threads")) {
    if (!t->is_number_unsigned() || *t < 1u || *t > 4096u) {
      refuse(file, "'threads' is not a whole number from 1 to 4096");
    }
    m.threads = t->get<uint32_t>();
  }
  if (const Json* one = f.find("one_processor")) {
    if (!one->is_boolean()) refuse(file, "'one_processor' is not true or false");
    m.one_processor = one->get<bool>();
  }
  if (const Json* l = f.find("latency_seconds")) {
    m.latency_seconds = read_number(*l, "latency_seconds", file, 0);
  }
  const Json& listed = f.at("rates");
  f.only(kKeys);
  const Fields rates(listed, file, "'rates'");
  std::array<std::string_view, 9> keys;
  for (size_t i = 0; i < keys.size(); ++i) {
    const MachineRate& r = machine_rates()[i];
    keys[i] = r.key;
    const Json* rate = r.required ? &rates.at(r.key) : rates.find(r.key);
    if (rate != nullptr) m.*r.rate = read_rate(*rate, r.key, file);
  }
  rates.only(keys);
  return m;
}

std::string write_machine(const Machine& m) {
  Json j = {{"strata_machine", kVersion}, {"name", m.name}};
  if (!m.note.empty()) j["note"] = m.note;
  if (!m.date.empty()) j["date"] = m.date;
  j["threads"] = m.threads;
  j["one_processor"] = m.one_processor;
  j["latency_seconds"] = m.latency_seconds;
  j["rates"] = Json::object();
  for (const MachineRate& r : machine_rates()) {
    const MeasuredRate& rate = m.*r.rate;
    if (rate.median <= 0) continue;
    j["rates"][std::string(r.key)] = {
        {"median", rate.median}, {"least", rate.least}, {"most", rate.most}};
  }
  return j.dump(2) + "\n";
}

VirtualRates rates_of(const Machine& m, DType weights) {
  VirtualRates r;
  r.flops_per_second = (weights == DType::bf16 ? m.gemm_bf16 : m.gemm_fp32).median;
  r.memory_bytes_per_second = m.memory.median;
  r.update_bytes_per_second = m.update.median;
  r.h2d_bytes_per_second = m.h2d.median;
  r.d2h_bytes_per_second = m.d2h.median;
  if (m.nvme_read.median > 0) r.nvme_read_bytes_per_second = m.nvme_read.median;
  if (m.nvme_write.median > 0) r.nvme_write_bytes_per_second = m.nvme_write.median;
  r.nvme_mixed_bytes_per_second = m.nvme_mixed.median;
  r.one_processor = m.one_processor;
  r.latency_seconds = m.latency_seconds;
  return r;
}

}  // namespace strata
