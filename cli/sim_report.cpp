#include "cli/sim_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/sizes.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::string>;

Json by_tier(const std::array<size_t, kTiers>& bytes) {
  Json j;
  for (size_t t = 0; t < kTiers; ++t) j[name_of(static_cast<Tier>(t))] = bytes[t];
  return j;
}

Json by_link(uint64_t h2d, uint64_t d2h, uint64_t nvme_read, uint64_t nvme_write) {
  return {{"h2d", h2d}, {"d2h", d2h}, {"nvme_read", nvme_read}, {"nvme_write", nvme_write}};
}

std::array<size_t, kTiers> peaks_of(const SimRow& r) {
  std::array<size_t, kTiers> peaks{};
  for (size_t t = 0; t < kTiers; ++t) peaks[t] = r.plan.tiers[t].peak;
  return peaks;
}

std::string milliseconds(double seconds) { return fmt::format("{:.1f} ms", seconds * 1e3); }

std::string percent(double part, double whole) {
  return fmt::format("{:.1f}%", whole > 0 ? 100 * part / whole : 0);
}

/// What compute did not do at full speed, by cause, the largest first.
std::vector<std::pair<std::string, double>> stalls_of(const Prediction& p) {
  std::vector<std::pair<std::string, double>> list;
  for (size_t r = 0; r < kResources; ++r) {
    if (static_cast<Resource>(r) == Resource::compute) continue;
    list.emplace_back(name_of(static_cast<Resource>(r)), p.stalls.on[r]);
  }
  list.emplace_back("issuer", p.stalls.issuer);
  list.emplace_back("sharing", p.stalls.sharing);
  return list;
}

std::string shortfall_text(const SimRow& r) {
  std::string text;
  for (const Shortfall& s : r.plan.shortfall) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(s.tier), format_bytes(s.bytes));
  }
  return text;
}

/// Rows of a table for people; columns of tiers and links that nobody uses are left out.
std::vector<Cells> table_of(const std::vector<SimRow>& rows) {
  const auto any = [&](auto used) { return std::any_of(rows.begin(), rows.end(), used); };
  const bool host = any([](const SimRow& r) { return r.budgets[1] != 0; });
  const bool nvme = any([](const SimRow& r) { return r.budgets[2] != 0; });
  const bool refused = any([](const SimRow& r) { return !r.plan.fits; });
  Cells header = {"policy", "device"};
  if (host) header.emplace_back("host");
  if (nvme) header.emplace_back("nvme");
  header.insert(header.end(), {"tokens", "step", "x roofline", "bottleneck", "tokens/s", "stalled",
                               "h2d", "d2h"});
  if (nvme) header.insert(header.end(), {"nvme read", "nvme write"});
  header.insert(header.end(), {"misses", "late", "wasted", "device peak"});
  if (refused) header.emplace_back("short by");
  std::vector<Cells> table = {header};
  for (const SimRow& r : rows) {
    Cells cells = {r.policy, format_bytes(r.budgets[0])};
    if (host) cells.push_back(format_bytes(r.budgets[1]));
    if (nvme) cells.push_back(format_bytes(r.budgets[2]));
    cells.push_back(std::to_string(r.tokens * r.accum));
    if (!r.plan.fits) {
      cells.emplace_back("does not fit");
      cells.resize(header.size());
      cells.back() = shortfall_text(r);
      table.push_back(cells);
      continue;
    }
    const Prediction& p = r.plan.prediction;
    cells.push_back(milliseconds(p.step_seconds));
    cells.push_back(fmt::format("{:.2f}", r.over_roofline()));
    cells.emplace_back(r.roofline.bottleneck);
    cells.push_back(fmt::format("{:.0f}", r.tokens_per_second()));
    cells.push_back(percent(p.stalls.sum(), p.step_seconds));
    cells.push_back(format_bytes(p.h2d_bytes));
    cells.push_back(format_bytes(p.d2h_bytes));
    if (nvme) cells.push_back(format_bytes(p.nvme_read_bytes));
    if (nvme) cells.push_back(format_bytes(p.nvme_write_bytes));
    for (const uint64_t n : {p.demand_misses, p.late_prefetches, p.wasted_prefetches}) {
      cells.push_back(std::to_string(n));
    }
    cells.push_back(format_bytes(r.plan.tiers[0].peak));
    cells.resize(header.size());
    table.push_back(cells);
  }
  return table;
}

/// Leaves of an object as (key_key, text), in order.
void flatten(const Json& j, const std::string& prefix,
             std::vector<std::pair<std::string, std::string>>& out) {
  for (const auto& [key, value] : j.items()) {
    const std::string name = prefix.empty() ? key : fmt::format("{}_{}", prefix, key);
    if (value.is_object()) {
      flatten(value, name, out);
    } else {
      out.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

/// As RFC 4180 has it.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

template <class Cell>
std::string joined(const Cells& cells, const char* between, Cell cell) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : between) + cell(cells[i]);
  return line;
}

}  // namespace

Json sim_json(const SimRow& r) {
  Json j = {{"policy", r.policy},
            {"budgets", by_tier(r.budgets)},
            {"tokens", r.tokens},
            {"accum", r.accum},
            {"fits", r.plan.fits}};
  if (!r.plan.fits) {
    std::array<size_t, kTiers> missing{};
    for (const Shortfall& s : r.plan.shortfall) missing[static_cast<size_t>(s.tier)] = s.bytes;
    j["shortfall"] = by_tier(missing);
    j["minimum"] = by_tier(r.plan.minimum);
    return j;
  }
  const Prediction& p = r.plan.prediction;
  j["planned_by"] = r.plan.plan.policy;
  j["steps"] = r.steps;
  j["step_seconds"] = p.step_seconds;
  j["roofline_seconds"] = r.roofline.seconds;
  j["bottleneck"] = r.roofline.bottleneck;
  j["tokens_per_second"] = r.tokens_per_second();
  j["bytes"] = by_link(p.h2d_bytes, p.d2h_bytes, p.nvme_read_bytes, p.nvme_write_bytes);
  const auto whole = [](double bytes) { return static_cast<uint64_t>(std::llround(bytes)); };
  if (r.bound) {
    const LinkUnits& b = r.bound->bytes;
    j["bound_bytes"] = by_link(whole(b.h2d), whole(b.d2h), whole(b.nvme_read), whole(b.nvme_write));
    j["bound_seconds"] = r.bound->step_seconds;
  }
  for (const auto& [cause, seconds] : stalls_of(p)) j["stalls"][cause] = seconds;
  j["peaks"] = by_tier(peaks_of(r));
  for (size_t i = 0; i < kResources; ++i) {
    j["work"][name_of(static_cast<Resource>(i))] = p.work[i];
  }
  j["hits"] = p.hits;
  j["misses"] = p.demand_misses;
  j["prefetches"] = p.prefetches;
  j["late_prefetches"] = p.late_prefetches;
  j["wasted_prefetches"] = p.wasted_prefetches;
  j["evictions"] = p.evictions;
  j["updates"] = p.updates;
  j["plan"] = hash_text(r.plan.plan.hash());
  return j;
}

std::string sim_json(const std::vector<SimRow>& rows, bool sweep) {
  if (!sweep) return sim_json(rows.front()).dump();
  Json j = {{"runs", Json::array()}};
  for (const SimRow& r : rows) j["runs"].push_back(sim_json(r));
  return j.dump();
}

std::string sim_csv(const std::vector<SimRow>& rows) {
  std::vector<std::vector<std::pair<std::string, std::string>>> leaves;
  Cells columns;
  for (const SimRow& r : rows) {
    flatten(sim_json(r), "", leaves.emplace_back());
    for (const auto& [name, text] : leaves.back()) {
      if (std::find(columns.begin(), columns.end(), name) == columns.end()) columns.push_back(name);
    }
  }
  std::string out = joined(columns, ",", csv_cell);
  for (const auto& row : leaves) {
    Cells cells(columns.size());
    for (const auto& [name, text] : row) {
      const auto at = std::find(columns.begin(), columns.end(), name);
      cells[static_cast<size_t>(at - columns.begin())] = text;
    }
    out += "\n" + joined(cells, ",", csv_cell);
  }
  return out;
}

std::string sim_markdown(const std::vector<SimRow>& rows) {
  std::string out;
  const auto line = [&](const Cells& cells) {
    out += (out.empty() ? "| " : "\n| ") + joined(cells, " | ", [](const auto& c) { return c; }) +
           " |";
  };
  const auto table = table_of(rows);
  for (size_t i = 0; i < table.size(); ++i) {
    line(table[i]);
    if (i != 0) continue;
    Cells rule(table[0].size(), "---:");
    rule.front() = "---";
    line(rule);
  }
  return out;
}

std::string sim_table(const std::vector<SimRow>& rows) { return aligned_table(table_of(rows)); }

std::string sim_text(const SimRow& r) {
  const Prediction& p = r.plan.prediction;
  std::string text = fmt::format(
      "Step      {}, {:.2f} x the roofline of {} ({}); {:.1f} tokens/s; mean of {} step{}\n",
      milliseconds(p.step_seconds), r.over_roofline(), milliseconds(r.roofline.seconds),
      r.roofline.bottleneck, r.tokens_per_second(), r.steps, r.steps == 1 ? "" : "s");
  auto stalls = stalls_of(p);
  std::stable_sort(stalls.begin(), stalls.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  text += fmt::format("Stalled   {} of it", percent(p.stalls.sum(), p.step_seconds));
  const char* between = ": ";
  for (const auto& [cause, seconds] : stalls) {
    if (seconds < 5e-4 * p.step_seconds) continue;
    text += fmt::format("{}{} {}", between, cause, percent(seconds, p.step_seconds));
    between = ", ";
  }
  text += fmt::format("\nMoves     to the device {}, back {}; from NVMe {}, to NVMe {}\n",
                      format_bytes(p.h2d_bytes), format_bytes(p.d2h_bytes),
                      format_bytes(p.nvme_read_bytes), format_bytes(p.nvme_write_bytes));
  if (r.bound) {
    const LinkUnits& b = r.bound->bytes;
    const auto bytes = [](double n) {
      return format_bytes(static_cast<uint64_t>(std::llround(n)));
    };
    text += fmt::format(
        "Bound     no plan moves less, by time, than to the device {}, back {}; from NVMe {}, to "
        "NVMe {}; none takes less than {} a step\n",
        bytes(b.h2d), bytes(b.d2h), bytes(b.nvme_read), bytes(b.nvme_write),
        milliseconds(r.bound->step_seconds));
  }
  text += fmt::format(
      "Uses      {} hits, {} misses; {} prefetches, {} late, {} wasted; {} evictions, {} "
      "updates\n\n",
      p.hits, p.demand_misses, p.prefetches, p.late_prefetches, p.wasted_prefetches, p.evictions,
      p.updates);
  if (!r.plan.remark.empty()) text += "Note      " + r.plan.remark + "\n\n";
  std::vector<Cells> tiers = {{"", "device", "host", "nvme"}, {"peak"}, {"budget"}, {"minimum"}};
  for (size_t t = 0; t < kTiers; ++t) {
    tiers[1].push_back(format_bytes(r.plan.tiers[t].peak));
    tiers[2].push_back(format_bytes(r.budgets[t]));
    tiers[3].push_back(format_bytes(r.plan.minimum[t]));
  }
  return text + aligned_table(tiers);
}

}  // namespace strata
