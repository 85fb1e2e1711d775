// Learning rate over a run.
#pragma once
#include <cstdint>

namespace strata {

/// Linear warm-up, then half a cosine from `lr` down to `min_lr`.
struct LrSchedule {
  double lr;
  double min_lr;
  uint64_t warmup;  ///< steps
  uint64_t steps;   ///< of the whole run

  /// The rate of step `step`, counted from 0: lr * (step + 1) / warmup during warm-up, then
  /// min_lr + (lr - min_lr) * (1 + cos(pi * (step - warmup) / (steps - warmup))) / 2; `min_lr` from
  /// `steps` on. The bits do not depend on the C library.
  double at(uint64_t step) const noexcept;
};

}  // namespace strata
