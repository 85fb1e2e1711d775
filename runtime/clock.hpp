// Time that only goes forward.
#pragma once
#include <chrono>

namespace strata {

/// Seconds since some instant before the process began.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strata
