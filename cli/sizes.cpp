#include "cli/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr const char* kBytesAccepted = "write bytes like 700MiB, 2GiB, 1.5GB or 4096";
constexpr const char* kSizesAccepted =
    "write bytes like 700MiB, 2GiB, 1.5GB or 4096, a share like 80%, or all but some like -2GiB";

[[noreturn]] void refuse(std::string_view flag, std::string_view text, std::string_view why,
                         const char* accepted) {
  throw ConfigError(fmt::format("{}: '{}' {}; {}", flag, text, why, accepted));
}

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                          {"b", 1},
                                          {"kib", 1ull << 10},
                                          {"mib", 1ull << 20},
                                          {"gib", 1ull << 30},
                                          {"tib", 1ull << 40},
                                          {"kb", 1000ull},
                                          {"mb", 1000000ull},
                                          {"gb", 1000000000ull},
                                          {"tb", 1000000000000ull}}};

std::optional<uint64_t> unit_bytes(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  return std::nullopt;
}

/// A decimal number as digits before and after the point: whole bytes stay exact.
struct Decimal {
  uint64_t whole = 0;
  double fraction = 0;
  bool has_point = false;
};

/// Takes the number off the front of `rest`; nothing when there is none or it is out of range.
std::optional<Decimal> take_decimal(std::string_view& rest) {
  Decimal number;
  const char* const end = rest.data() + rest.size();
  const auto whole = std::from_chars(rest.data(), end, number.whole);
  if (whole.ec != std::errc()) return std::nullopt;
  const char* at = whole.ptr;
  if (at != end && *at == '.') {
    number.has_point = true;
    double place = 1;
    const char* const digits = ++at;
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
      place /= 10;
      number.fraction += place * (*at - '0');
    }
    if (at == digits) return std::nullopt;
  }
  rest = {at, static_cast<size_t>(end - at)};
  return number;
}

/// `accepted` ends the message of a refusal.
Size parse_size(std::string_view flag, std::string_view text, const char* accepted) {
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  const auto number = take_decimal(rest);
  if (!number) refuse(flag, text, "is not a size", accepted);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (rest == "%") {
    const double share = static_cast<double>(number->whole) + number->fraction;
    if (negative || share > 100) refuse(flag, text, "is not between 0% and 100%", accepted);
    return Size::percent(share);
  }
  const auto unit = unit_bytes(rest);
  if (!unit) refuse(flag, text, fmt::format("has no unit '{}'", rest), accepted);
  if (number->has_point && *unit == 1) {
    refuse(flag, text, "is not a whole number of bytes", accepted);
  }
  // Leaves room for the fraction of a unit and for adding sizes up.
  if (number->whole >= (uint64_t{1} << 62) / *unit) refuse(flag, text, "is too large", accepted);
  const uint64_t count =
      number->whole * *unit +
      static_cast<uint64_t>(std::round(number->fraction * static_cast<double>(*unit)));
  return negative ? Size::all_but(count) : Size::bytes(count);
}

}  // namespace

Size Size::parse(std::string_view flag, std::string_view text) {
  return parse_size(flag, text, kSizesAccepted);
}

uint64_t Size::resolve(std::string_view flag, uint64_t available) const {
  switch (kind_) {
    case Kind::bytes: return count_;
    case Kind::percent:
      return std::min(available,
                      static_cast<uint64_t>(static_cast<double>(available) * share_ / 100.0));
    case Kind::all_but: break;
  }
  if (count_ > available) {
    throw ConfigError(fmt::format("{}: all but {} was asked for, but only {} is available", flag,
                                  format_bytes(count_), format_bytes(available)));
  }
  return available - count_;
}

uint64_t parse_bytes(std::string_view flag, std::string_view text) {
  if (text.ends_with('%') || text.starts_with('-')) {
    refuse(flag, text, "is not a number of bytes", kBytesAccepted);
  }
  return parse_size(flag, text, kBytesAccepted).resolve(flag, 0);
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  size_t unit = 1;
  while (unit + 1 < kNames.size() && bytes >= (uint64_t{1} << (10 * (unit + 1)))) ++unit;
  for (;; ++unit) {
    const uint64_t size = uint64_t{1} << (10 * unit);
    if (bytes % size == 0) return fmt::format("{} {}", bytes / size, kNames[unit]);
    const double value = static_cast<double>(bytes) / static_cast<double>(size);
    if (value >= 1023.5 && unit + 1 < kNames.size()) continue;  // would print as 1024
    const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, digits, kNames[unit]);
  }
}

}  // namespace strata
