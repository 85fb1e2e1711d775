// What is reported of a training step.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "offload/simulator.hpp"

namespace strata {

struct StepMetrics {
  uint64_t step = 0;     ///< counted from 1: steps finished
  double loss = 0;       ///< mean over the global batch, before the update
  double lr = 0;         ///< of the update
  double grad_norm = 0;  ///< global L2 norm, before clipping
  uint64_t tokens = 0;   ///< trained on since the run began, this step included
  double tokens_per_second = 0;
  double step_ms = 0;
  double stall_ms = 0;  ///< of step_ms: compute waited for other streams' work
  Stalls stalls;        ///< in seconds: the same by stream, and for other reasons
  /// Seconds in the step that streams were at work, without waits for the cores; not known of
  /// compute.
  std::array<double, kResources> busy{};
  uint64_t used_peak_device_bytes = 0;
  uint64_t used_peak_host_bytes = 0;
  uint64_t used_peak_nvme_bytes = 0;
  uint64_t resident_bytes = 0;  ///< of the process, as the operating system counts
  uint64_t locked_bytes = 0;    ///< of them, that cannot be swapped
  uint64_t h2d_bytes = 0;       ///< moved for this step, and for an evaluation after it
  uint64_t d2h_bytes = 0;
  uint64_t nvme_read_bytes = 0;
  uint64_t nvme_write_bytes = 0;          ///< drive wear
  std::optional<double> validation_loss;  ///< when evaluated after this step
};

/// Writes `metrics.jsonl`: one flat JSON object a step, whole lines only, so that a reader or a
/// crash never sees half of one. Numbers that are not finite are written as null. Keys: those of
/// StepMetrics, `stalls` and `busy` in milliseconds as `stall_h2d_ms` and `busy_h2d_ms` for each
/// stream but compute, `stall_sharing_ms` and `stall_issuer_ms`; `validation_loss` only where there
/// is one.
class MetricsWriter {
 public:
  /// Starts the file anew, but keeps what it has of the first `keep_steps` steps, for a run that
  /// goes on from there; later lines, and halves of lines, go. Throws IoError.
  explicit MetricsWriter(const std::string& path, uint64_t keep_steps = 0);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Appends one line; it is with the operating system on return. Throws IoError. Does not
  /// allocate.
  void write(const StepMetrics& metrics);
  /// What was written is on the disk when it returns: before a checkpoint, so that a run that goes
  /// on from it has the lines of its steps. Throws IoError.
  void sync();

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace strata
