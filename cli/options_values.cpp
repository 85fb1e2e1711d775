#include "cli/options_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/errors.hpp"

namespace strata {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

uint64_t parse_count(std::string_view flag, std::string_view text, uint64_t least, uint64_t most) {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc() && end == text.data() + text.size() && n >= least && n <= most) return n;
  const std::string range = most == std::numeric_limits<uint64_t>::max()
                                ? fmt::format("a whole number from {}", least)
                                : fmt::format("a whole number from {} to {}", least, most);
  throw ConfigError(fmt::format("{}: '{}' is not {}", flag, text, range));
}

bool RealRange::contains(double x) const noexcept {
  const bool above = open_below ? x > least : x >= least;
  const bool below = open_above ? x < most : x <= most;
  return above && below && std::isfinite(x);
}

double parse_real(std::string_view flag, std::string_view text, const RealRange& range) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc() && end == text.data() + text.size() && range.contains(x)) return x;
  std::string bounds =
      fmt::format("{} {}", range.open_below ? "above" : "of at least", range.least);
  if (std::isfinite(range.most)) {
    bounds += fmt::format(" and {} {}", range.open_above ? "below" : "at most", range.most);
  }
  throw ConfigError(fmt::format("{}: '{}' is not a number {}", flag, text, bounds));
}

size_t parse_choice(std::string_view flag, std::string_view text,
                    std::span<const std::string_view> choices) {
  const auto found = std::find(choices.begin(), choices.end(), text);
  if (found != choices.end()) return static_cast<size_t>(found - choices.begin());
  throw ConfigError(
      fmt::format("{}: '{}' is not one of: {}", flag, text, fmt::join(choices, ", ")));
}

double parse_duration(std::string_view flag, std::string_view text) {
  double unit = 1;
  std::string_view number = text;
  if (!text.empty()) {
    constexpr std::pair<char, double> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    for (const auto& [letter, seconds] : kUnits) {
      if (text.back() != letter) continue;
      unit = seconds;
      number.remove_suffix(1);
    }
  }
  double n = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
  if (error == std::errc() && end == number.data() + number.size() && std::isfinite(n) && n > 0) {
    return n * unit;
  }
  throw ConfigError(
      fmt::format("{}: '{}' is not a time above 0 such as 90s, 30m, 1.5h or 2d", flag, text));
}

std::vector<std::string> parse_list(std::string_view flag, std::string_view text) {
  std::vector<std::string> items;
  for (size_t at = 0; at <= text.size();) {
    const std::string_view item = text.substr(at, text.find(',', at) - at);
    if (item.empty()) throw ConfigError(fmt::format("{}: '{}' has an empty item", flag, text));
    items.emplace_back(item);
    at += item.size() + 1;
  }
  return items;
}

std::string closest(std::string_view text, std::span<const std::string> candidates) {
  std::string best;
  // A third of the letters may be wrong, at least two.
  size_t limit = std::max<size_t>(2, text.size() / 3);
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(text, candidate);
    if (distance > limit || (distance == limit && !best.empty())) continue;
    if (distance >= candidate.size()) continue;  // nothing in common
    best = candidate;
    limit = distance;
  }
  return best;
}

}  // namespace strata
