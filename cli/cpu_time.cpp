#include "cli/cpu_time.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>

namespace strata {
namespace {

std::optional<CpuTimes> system_times() {
  std::ifstream file("/proc/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return parse_cpu_times(line, static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view file, double ticks_per_second) {
  constexpr std::string_view kStart = "cpu ";
  if (!file.starts_with(kStart)) return std::nullopt;
  const char* p = file.data() + kStart.size();
  const char* const end = file.data() + std::min(file.find('\n'), file.size());
  // user, nice, system, idle, iowait, irq, softirq, steal; guest times are in the first two.
  std::array<uint64_t, 8> ticks{};
  for (uint64_t& t : ticks) {
    while (p != end && *p == ' ') ++p;
    const auto [next, error] = std::from_chars(p, end, t);
    if (error != std::errc()) return std::nullopt;
    p = next;
  }
  uint64_t total = 0;
  for (const uint64_t t : ticks) total += t;
  const uint64_t idle = ticks[3] + ticks[4];
  return CpuTimes{static_cast<double>(total - idle) / ticks_per_second,
                  static_cast<double>(total) / ticks_per_second};
}

double process_cpu_seconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double children_cpu_seconds() noexcept {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double others_share(double busy, double total, double own) noexcept {
  return total > 0 ? std::clamp((busy - own) / total, 0.0, 1.0) : 0.0;
}

CpuWatch::CpuWatch()
    : system_(system_times()), own_(process_cpu_seconds()), children_(children_cpu_seconds()) {}

std::optional<double> CpuWatch::others_share() const {
  const auto now = system_times();
  if (!now || !system_) return std::nullopt;
  return strata::others_share(now->busy - system_->busy, now->total - system_->total,
                              own_seconds() + children_cpu_seconds() - children_);
}

std::string noise_warning(double share) {
  if (share <= kNoisyShare) return {};
  return fmt::format(
      "Other processes took up to {:.0f} % of the CPUs meanwhile: the figures are not those of a "
      "quiet machine.",
      100 * share);
}

}  // namespace strata
