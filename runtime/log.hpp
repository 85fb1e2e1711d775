// Messages to people, on stderr. Start-up, warnings and the end of a run: never in steady state.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace strata {

enum class LogLevel : uint8_t { debug, info, warn, error, off };

/// `debug`, `info`, `warn`, `error` or `off`; nothing when it is none of these.
std::optional<LogLevel> parse_log_level(std::string_view) noexcept;

/// Messages below `level` are not written. At first it is what the environment variable STRATA_LOG
/// names, else `info`.
void set_log_level(LogLevel level);
LogLevel log_level();

/// One line each, with the time and the level's letter in front. Any thread.
void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warn(std::string_view message);
void log_error(std::string_view message);

}  // namespace strata
