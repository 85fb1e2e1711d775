#include "runtime/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>

namespace strata {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warn", "error", "off"};
constexpr std::array kLevels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                spdlog::level::err, spdlog::level::off};

/// Not in spdlog's registry, so that a host program's own loggers and ours do not meet.
spdlog::logger& logger() {
  static const std::unique_ptr<spdlog::logger> one = [] {
    auto made = std::make_unique<spdlog::logger>("strata",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S %L %v");
    made->flush_on(spdlog::level::debug);
    const char* wanted = std::getenv("STRATA_LOG");
    const auto level = wanted == nullptr ? LogLevel::info : parse_log_level(wanted);
    made->set_level(kLevels[static_cast<size_t>(level.value_or(LogLevel::info))]);
    if (!level) {
      made->warn("STRATA_LOG={} is none of debug, info, warn, error, off; using info", wanted);
    }
    return made;
  }();
  return *one;
}

void write(spdlog::level::level_enum level, std::string_view message) {
  logger().log(level, spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace

std::optional<LogLevel> parse_log_level(std::string_view name) noexcept {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void set_log_level(LogLevel level) { logger().set_level(kLevels[static_cast<size_t>(level)]); }

LogLevel log_level() {
  size_t i = 0;
  while (kLevels[i] != logger().level()) ++i;
  return static_cast<LogLevel>(i);
}

void log_debug(std::string_view message) { write(spdlog::level::debug, message); }
void log_info(std::string_view message) { write(spdlog::level::info, message); }
void log_warn(std::string_view message) { write(spdlog::level::warn, message); }
void log_error(std::string_view message) { write(spdlog::level::err, message); }

}  // namespace strata
