// Flags of one verb.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/options_values.hpp"
#include "cli/sizes.hpp"
#include "runtime/errors.hpp"

namespace strata {

/// Adds flags to one verb. Values arrive as text and are converted here, not by CLI11, so that all
/// messages have one form. Default values are read from the targets.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  void group(const char* name) { group_ = name; }

  template <class Use>
  CLI::Option* value(const char* name, const char* type, const std::string& shown_default,
                     const std::string& help, Use use) {
    const std::string text =
        shown_default.empty() ? help : fmt::format("{} [{}]", help, shown_default);
    CLI::Option* option = app_.add_option_function<std::string>(name, use, text);
    option->type_name(type)->group(group_);
    return option;
  }

  /// May be given several times, with one value each.
  template <class Use>
  void each(const char* name, const char* type, const std::string& shown_default,
            const std::string& help, Use use) {
    app_.add_option_function<std::vector<std::string>>(
            name,
            [use](const std::vector<std::string>& values) {
              for (const std::string& v : values) use(v);
            },
            fmt::format("{} [{}]", help, shown_default))
        ->allow_extra_args(false)
        ->type_name(type)
        ->group(group_);
  }

  template <class T>
  void count(const char* name, T& target, const std::string& help, uint64_t least,
             uint64_t most = std::numeric_limits<T>::max(), std::string shown_default = {}) {
    if (shown_default.empty()) shown_default = fmt::format("{}", target);
    value(name, "N", shown_default, help, [=, &target](const std::string& text) {
      target = static_cast<T>(parse_count(name, text, least, most));
    });
  }

  CLI::Option* real(const char* name, double& target, const std::string& help, RealRange range,
                    std::string shown_default = {}) {
    if (shown_default.empty()) shown_default = fmt::format("{}", target);
    return value(name, "X", shown_default, help,
                 [=, &target](const std::string& text) { target = parse_real(name, text, range); });
  }

  void text(const char* name, const char* type, std::string& target, const std::string& help) {
    value(name, type, target, help, [=, &target](const std::string& text) {
      if (text.empty()) throw ConfigError(fmt::format("{}: the value is empty", name));
      target = text;
    });
  }

  /// The n-th choice stands for static_cast<T>(n); the first is the default.
  template <class T, size_t N>
  void choice(const char* name, T& target, const std::array<std::string_view, N>& choices,
              const std::string& help) {
    const std::string type = fmt::format("{}", fmt::join(choices, "|"));
    value(name, type.c_str(), std::string(choices[static_cast<size_t>(target)]), help,
          [=, &target](const std::string& text) {
            target = static_cast<T>(parse_choice(name, text, choices));
          });
  }

  void size(const char* name, std::optional<Size>& target, const std::string& shown_default,
            const std::string& help) {
    value(name, "SIZE", shown_default, help,
          [=, &target](const std::string& text) { target = Size::parse(name, text); });
  }

  void bytes(const char* name, uint64_t& target, const std::string& help) {
    value(name, "BYTES", format_bytes(target), help,
          [=, &target](const std::string& text) { target = parse_bytes(name, text); });
  }

  /// May be given several times.
  void list(const char* name, const char* type, std::vector<std::string>& target,
            const std::string& help) {
    app_.add_option(name, target, help)->type_name(type)->group(group_);
  }

  void flag(const char* name, bool& target, const std::string& help) {
    app_.add_flag(name, target, help)->disable_flag_override()->group(group_);
  }

  void json(bool& target) {
    group("Output");
    flag("--json", target, "One JSON object on stdout, all other text on stderr");
  }

 private:
  CLI::App& app_;
  std::string group_ = "Options";
};

}  // namespace strata
