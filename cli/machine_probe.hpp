// What `strata probe` measures, and machine files by name.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "offload/machine.hpp"
#include "offload/nvme/store.hpp"

namespace strata {

struct ProbeOptions {
  std::string model = "gpt2";  ///< whose products are timed
  uint32_t seq = 256, batch = 4;
  uint32_t threads = 1;
  std::vector<std::string> nvme;  ///< directories, one on each drive; none: no rates of NVMe
  uint64_t nvme_bytes = uint64_t{1} << 30;
  uint64_t block_bytes = 1 << 20;
  /// Of each array that memory, updates and copies are timed over; less fits some caches.
  uint64_t array_bytes = 256 << 20;
  uint32_t samples = 5;
  double seconds = 0.3;  ///< of a sample
};

/// Measures this machine; takes about `samples * seconds` for each rate. `say` is told what is
/// measured next. Throws ConfigError for a model or directories that do not exist, and OutOfMemory.
Machine probe_machine(const ProbeOptions&, const std::function<void(const char*)>& say);

/// Median, least and most. `samples` is not empty.
MeasuredRate rate_of(std::vector<double> samples);

/// Throws IoError, or ConfigError naming what is wrong with the file.
Machine load_machine(const std::string& path);

}  // namespace strata
