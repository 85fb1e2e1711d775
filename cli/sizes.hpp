// Memory sizes as people write them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// A size that may depend on how much there is: bytes, a share, or all but some bytes.
class Size {
 public:
  static Size bytes(uint64_t n) { return {Kind::bytes, n, 0}; }
  static Size percent(double share) { return {Kind::percent, 0, share}; }
  static Size all_but(uint64_t n) { return {Kind::all_but, n, 0}; }

  /// Reads `700MiB`, `2GiB`, `1.5GB`, `4096`, `80%`, and `-2GiB` for all but 2 GiB. Units: B, KiB,
  /// MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000), in any case. Throws
  /// ConfigError naming `flag`, the text and what is accepted.
  static Size parse(std::string_view flag, std::string_view text);

  /// Whether the size is a number of bytes whatever is available.
  bool is_absolute() const noexcept { return kind_ == Kind::bytes; }

  /// Bytes, when `available` bytes are there; an absolute size may exceed them. Throws ConfigError
  /// naming `flag` when all but more than there is was asked for.
  uint64_t resolve(std::string_view flag, uint64_t available) const;

  bool operator==(const Size&) const = default;

 private:
  enum class Kind : uint8_t { bytes, percent, all_but };
  Size(Kind kind, uint64_t count, double share) : kind_(kind), count_(count), share_(share) {}

  Kind kind_;
  uint64_t count_;  // bytes, except for percent
  double share_;    // in percent
};

/// As `Size::parse`, for flags that take bytes only.
uint64_t parse_bytes(std::string_view flag, std::string_view text);

/// For people: "0 B", "1000 B", "2 GiB", "1.25 GiB", "18.4 MiB": binary units, three digits or all
/// digits of a whole number.
std::string format_bytes(uint64_t bytes);

}  // namespace strata
