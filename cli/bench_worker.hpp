// The processes that `strata bench step` measures in, as their parent sees them.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/worker_process.hpp"
#include "train/session.hpp"

namespace strata {

/// What a worker measures.
enum class BenchArm : uint8_t {
  step,  ///< whole training steps
  team,  ///< the library's products on its own OpenMP team
  pool,  ///< the library's products on our thread pool
};
const char* name_of(BenchArm) noexcept;

/// The argument that makes this program a worker; the next one is `BenchWorkerConfig::to_json`.
constexpr std::string_view kWorkerVerb = "__worker";
/// What a worker is sent to measure once.
constexpr std::string_view kWorkerGo = "go";

struct BenchWorkerConfig {
  BenchArm arm = BenchArm::step;
  SessionConfig session;  ///< but for policy, chunk size and evaluation
  double lr = 0;
  double sample_seconds = 0.4;  ///< a sample takes this long or more, in whole steps or passes

  std::string to_json() const;
  /// Throws StateError: only a parent of this program writes it.
  static BenchWorkerConfig from_json(std::string_view);
};

/// FLOP/s. Of library products: with weights packed at most, and with all operands packed. Of
/// steps: the second is not used.
struct BenchRates {
  double flops_per_second = 0, packed_flops_per_second = 0;
};

struct BenchSample {
  BenchRates rates;
  double wall_seconds = 0;
  double cpu_seconds = 0;  ///< of the worker's process
  /// Share of all processors' time that went to anything else; nothing where that is unknown.
  std::optional<double> others_share;
  /// Since the sample before: how long the worker slept, and what its threads used meanwhile.
  double idle_seconds = 0, idle_cpu_seconds = 0;

  std::string to_json() const;
  /// Throws the Error that the worker reports instead of a sample; StateError for anything else.
  static BenchSample from_json(std::string_view);
};

/// Samples of one arm as one: all FLOPs over all seconds, the most that others took in any.
/// `samples` is not empty.
BenchSample together(std::span<const BenchSample> samples);

/// One line that `BenchSample::from_json` and `BenchWorker` turn into an Error.
std::string bench_error_json(const std::string& what, int exit_code);

/// A worker that is ready to measure and sleeps while it does not.
class BenchWorker {
 public:
  /// Starts `command`, by default this program, and waits until it has warmed up. Throws the
  /// worker's own Error, and IoError when it died.
  explicit BenchWorker(const BenchWorkerConfig&,
                       std::vector<std::string> command = {"/proc/self/exe"});

  /// Errors as above.
  BenchSample measure();
  /// What the worker said about itself when it was ready.
  const std::string& about() const noexcept { return about_; }

 private:
  WorkerProcess process_;
  std::string about_;
};

}  // namespace strata
