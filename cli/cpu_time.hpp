// Who used the processors: this process, or others.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// Share of others from which on their work makes the figures of a measurement doubtful.
constexpr double kNoisyShare = 0.05;

/// CPU seconds of all processors together, since the machine started.
struct CpuTimes {
  double busy = 0;  ///< time stolen by a hypervisor's other guests included
  double total = 0;
};

/// From the contents of /proc/stat; nothing when its first line is not as expected.
std::optional<CpuTimes> parse_cpu_times(std::string_view file, double ticks_per_second);

/// CPU seconds of all threads of this process.
double process_cpu_seconds() noexcept;

/// The same of all programs that it started and that have ended.
double children_cpu_seconds() noexcept;

/// What happens to the processors between construction and a question.
class CpuWatch {
 public:
  CpuWatch();

  /// CPU seconds of this process.
  double own_seconds() const noexcept { return process_cpu_seconds() - own_; }
  /// Share of all processors' time, 0 to 1, taken by anything but this process and what it started
  /// and saw end meanwhile; nothing where /proc/stat does not tell.
  std::optional<double> others_share() const;

 private:
  std::optional<CpuTimes> system_;
  double own_, children_;
};

/// `busy`, `total` and `own` CPU seconds of one interval; rounding never makes it negative.
double others_share(double busy, double total, double own) noexcept;

/// A line for people when others took so much that figures are doubtful, else empty.
std::string noise_warning(double share);

}  // namespace strata
