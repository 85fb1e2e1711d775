// Values of flags: text to checked numbers and choices.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// A whole number in [least, most]. Throws ConfigError naming flag, text and range.
uint64_t parse_count(std::string_view flag, std::string_view text, uint64_t least, uint64_t most);

/// The range of a real flag.
struct RealRange {
  double least;
  double most;
  bool open_below = false;  ///< `least` itself is not allowed
  bool open_above = false;

  bool contains(double x) const noexcept;
};

/// A finite number in the range. Throws ConfigError naming flag, text and range.
double parse_real(std::string_view flag, std::string_view text, const RealRange& range);

/// Index of `text` among the choices. Throws ConfigError naming flag, text and choices.
size_t parse_choice(std::string_view flag, std::string_view text,
                    std::span<const std::string_view> choices);

/// Seconds, more than 0: `90`, `90s`, `30m`, `1.5h`, `2d`. Throws ConfigError.
double parse_duration(std::string_view flag, std::string_view text);

/// What stands between commas. Throws ConfigError for an empty item.
std::vector<std::string> parse_list(std::string_view flag, std::string_view text);

/// The candidate with the fewest single-letter changes from `text`, empty when none is close.
std::string closest(std::string_view text, std::span<const std::string> candidates);

}  // namespace strata
