// SIGTERM and SIGINT ask a run to save and stop.
#pragma once

namespace strata {

/// While it lives, the first signal is only noted; the second acts as if there were no handler.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  static int received() noexcept;
};

}  // namespace strata
