#include "train/metrics_console.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace strata {
namespace {

constexpr const char* kHeader = "{:>{}}  {:>8}  {:>9}  {:>9}  {:>8}  {:>9}  {:>6}  {:>7}";
constexpr const char* kLine =
    "{:>{}}  {:>8.4f}  {:>9.3e}  {:>9.4g}  {:>8.0f}  {:>9.1f}  {:>5.1f}%  {:>7}";

/// Width of "1000/1000".
size_t step_width(uint64_t steps) {
  return std::max<size_t>(4, 2 * fmt::formatted_size("{}", steps) + 1);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto s = static_cast<uint64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

std::string ConsoleProgress::header() const {
  return fmt::format(kHeader, "step", step_width(steps_), "loss", "lr", "grad norm", "tokens/s",
                     "ms/step", "stall", "ETA");
}

void ConsoleProgress::record(const StepMetrics& metrics) {
  // The second step replaces the first in the mean.
  const double weight = recorded_ < 2 ? 1.0 : 0.1;
  mean_ms_ += weight * (metrics.step_ms - mean_ms_);
  ++recorded_;
}

std::string ConsoleProgress::line(const StepMetrics& m) const {
  const uint64_t left = steps_ - std::min(m.step, steps_);
  const double stall = m.step_ms > 0 ? 100.0 * m.stall_ms / m.step_ms : 0.0;
  std::string text = fmt::format(kLine, fmt::format("{}/{}", m.step, steps_), step_width(steps_),
                                 m.loss, m.lr, m.grad_norm, m.tokens_per_second, m.step_ms, stall,
                                 format_duration(static_cast<double>(left) * mean_ms_ * 1e-3));
  if (m.validation_loss) text += fmt::format("  validation loss {:.4f}", *m.validation_loss);
  return text;
}

}  // namespace strata
