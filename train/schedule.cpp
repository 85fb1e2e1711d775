#include "train/schedule.hpp"

namespace strata {
namespace {

/// cos(pi * x) for 0 <= x <= 1 as sin(pi * (1/2 - x)), Taylor to the 21st power: error below 1e-16.
double cos_pi(double x) noexcept {
  const double y = 3.14159265358979323846 * (0.5 - x);
  const double y2 = y * y;
  double sum = 1.0;
  for (int k = 20; k >= 2; k -= 2) sum = 1.0 - y2 / (k * (k + 1)) * sum;
  return y * sum;
}

}  // namespace

double LrSchedule::at(uint64_t step) const noexcept {
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (step >= steps) return min_lr;
  const double x = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
  return min_lr + (lr - min_lr) * 0.5 * (1.0 + cos_pi(x));
}

}  // namespace strata
