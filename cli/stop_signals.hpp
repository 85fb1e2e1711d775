// SIGTERM, SIGINT and SIGHUP ask a run to save and stop.
#pragma once
#include <csignal>
#include <utility>
#include <vector>

namespace strata {

/// While it lives, the first signal is only noted; the second acts as if there were no handler.
/// Signals that were ignored before stay so. A closed pipe or a file that may not grow is then an
/// error of the call, with a message, and no sudden end.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  static int received() noexcept;

 private:
  std::vector<std::pair<int, struct sigaction>> earlier_;
};

}  // namespace strata
