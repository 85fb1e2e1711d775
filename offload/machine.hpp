// What a machine can do: rates that `strata probe` measured, or that were written by hand for
// what-if questions. docs/machine-format.md has the file.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/dtype.hpp"
#include "runtime/virtual/virtual_backend.hpp"

namespace strata {

/// A median, with the least and the most that were seen. All three are 0 where nothing is known.
struct MeasuredRate {
  double median = 0, least = 0, most = 0;

  bool operator==(const MeasuredRate&) const = default;
};

struct Machine {
  std::string name, note;  // note: where the figures come from
  std::string date;        // of the measurement, as 2026-01-31; empty: written by hand
  uint32_t threads = 1;    // that computed
  /// Compute, updates and copies between device and host share the same cores.
  bool one_processor = false;
  double latency_seconds = 0;  // of a launch or copy

  MeasuredRate gemm_fp32, gemm_bf16;  // FLOP/s of matrix products
  MeasuredRate memory;                // bytes/s of element-wise kernels on the device
  MeasuredRate update;                // bytes/s of AdamW where records live off the device
  MeasuredRate h2d, d2h;              // bytes/s
  /// Bytes/s alone, and both together while reads and writes of as many bytes run at once.
  MeasuredRate nvme_read, nvme_write, nvme_mixed;

  bool operator==(const Machine&) const = default;
};

/// A rate's key in the file; all but those of NVMe are required.
struct MachineRate {
  std::string_view key;
  MeasuredRate Machine::*rate;
  bool required;
};
std::span<const MachineRate> machine_rates() noexcept;

/// Throws ConfigError naming the file and what is wrong.
Machine read_machine(std::string_view text, std::string_view file);
std::string write_machine(const Machine&);

/// For planning and simulation. A machine without NVMe rates gets those of a slow drive.
VirtualRates rates_of(const Machine&, DType weights);

}  // namespace strata
