// One run at a time in a folder.
#pragma once
#include <string>

namespace strata {

/// Held until it is destroyed or the process ends, however it ends.
class RunLock {
 public:
  /// Throws ConfigError when another process holds it, IoError.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace strata
