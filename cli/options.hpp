// The command line: verbs and flags as plain structs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/sizes.hpp"
#include "offload/planner.hpp"
#include "offload/program.hpp"
#include "offload/updater.hpp"
#include "runtime/dtype.hpp"

namespace strata {

/// What is trained; not checked against the model here.
struct ModelArgs {
  std::string model;   ///< a preset or a shape like gpt2:L6,D384,H6,V256,T128; empty: not given
  uint32_t seq = 0;    ///< tokens of a sequence; 0: all positions of the model
  uint32_t batch = 8;  ///< sequences of a micro-batch
  uint32_t accum = 1;  ///< micro-batches of a step
  DType dtype = DType::f32;
  uint32_t recompute = 0;                // as SessionConfig has it
  std::optional<MicroBatchOrder> order;  ///< nothing: planned
};

/// Where it may be.
struct BudgetArgs {
  std::optional<Size> device_mem;  ///< nothing: 80 % of what is available
  std::optional<Size> host_mem;    ///< nothing: 0
  std::vector<std::string> nvme;   ///< directories of the NVMe tier; none: there is none
  std::optional<Size> nvme_mem;    ///< nothing: 80 % of what is free there
  std::string nvme_engine = "auto";
  bool nvme_unchecked = false;  ///< no checksums
  uint64_t chunk_bytes = 0;     ///< of a chunk's weight plane; 0: auto
  std::string policy = "auto";
  Objective objective = Objective::time;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
  std::string machine;   ///< a machine file whose rates are planned with; empty: nominal rates
  uint32_t threads = 0;  ///< 0: every core this process may use
};

struct OptimizerArgs {
  OptimizerConfig config;
  double lr = 6e-4;
  double min_lr = 6e-5;
  uint64_t warmup = 50;
  double clip = 1.0;  ///< 0: off
};

/// When a run saves its state, and when it stops.
struct SaveArgs {
  uint64_t every = 0;  ///< steps between checkpoints; 0: only at the end, or when stopped
  uint64_t keep_last = 2;
  uint64_t keep_every = 0;     ///< also keep those of multiples of so many steps; 0: no others
  bool off = false;            ///< no checkpoints at all
  double max_seconds = 0;      ///< stop and save after so long; 0: never
  bool allow_inexact = false;  ///< go on although numbers will differ from an uninterrupted run's
};

/// What a run records and says of itself.
struct ObserveArgs {
  /// Steps whose timeline goes to OUT/trace.json, counted from 1; an empty range: none.
  uint64_t first_step = 1, last_step = 0;
  bool advice = false;  ///< also where there is little to gain
};

/// Flags and their values as given, in order.
using GivenFlags = std::vector<std::pair<std::string, std::string>>;

/// Everything that describes a run; `plan` and `verify` take the flags of `train`, so that a
/// command line can be kept and only its verb changed.
struct RunArgs {
  ModelArgs model;
  BudgetArgs budget;
  OptimizerArgs optimizer;
  SaveArgs save;
  ObserveArgs observe;
  std::vector<std::string> data;  ///< as given: files, patterns, directories
  uint64_t steps = 1000;
  uint64_t evaluate_every = 0;  ///< steps; 0: ten times a run
  uint64_t evaluate_batches = 20;
  uint64_t seed = 1;
  std::string out = "out";
  bool json = false;
};

struct TrainArgs : RunArgs {
  /// Go on from the newest checkpoint in `out`, if there is one.
  bool resume_auto = false;
  /// What a checkpoint keeps of the command line: paths made absolute, defaults that depend on
  /// other flags spelled out; nothing of where the output goes and when to stop.
  GivenFlags flags;
};
struct PlanArgs : RunArgs {
  bool explain = false;  ///< say why
};

struct VerifyArgs : RunArgs {
  VerifyArgs() { steps = 5; }

  /// Random configurations to try, drawn from `seed`; 0: the one configuration given by the flags,
  /// whose `seed` is that of weights and data; without `data`, tokens are random.
  uint64_t random = 0;
};

/// Goes on with a run from its newest checkpoint, or from one named.
struct ResumeArgs {
  std::string run;  ///< the folder that was --out, or that of a checkpoint
  GivenFlags overrides;
  bool json = false;
};

struct GenerateArgs {
  std::string run;  ///< as of ResumeArgs
  BudgetArgs budget;
  std::string prompt;
  uint64_t tokens = 256;
  double temperature = 0.8;
  uint32_t top_k = 0;  ///< 0: all
  uint64_t seed = 1;
  bool json = false;
};

struct EvalArgs {
  std::string run;  ///< as of ResumeArgs
  BudgetArgs budget;
  std::vector<std::string> data;  ///< none: that of the run
  uint64_t batches = 0;           ///< 0: all of the validation part
  bool json = false;
};

struct InspectArgs {
  std::string path;  ///< a run, a checkpoint, or a safetensors file
  bool json = false;
};

struct DoctorArgs {
  std::vector<std::string> nvme;  ///< directories to look at; none: the working directory
  bool json = false;
};

enum class SimFormat : uint8_t { text, markdown, csv, json };

/// Simulates steps of a trace, for every policy, device budget and number of tokens.
struct SimArgs {
  std::string trace;
  std::string machine;                ///< a machine file; empty: nominal rates
  std::vector<std::string> policies;  ///< none: auto
  std::vector<uint64_t> device_mem;   ///< bytes; at least one
  uint64_t host_mem = 0, nvme_mem = 0;
  std::vector<uint64_t> tokens;  ///< of a micro-batch; none: as traced
  uint32_t accum = 1;
  uint32_t recompute = 0;  ///< as SessionConfig has it
  MicroBatchOrder order = MicroBatchOrder::horizontal;
  uint64_t chunk_bytes = 0;
  OptimizerConfig optimizer;
  double clip = 1.0;
  Objective objective = Objective::time;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
  uint32_t steps = 24;
  bool no_bound = false;
  std::string chrome_trace;  ///< a file for the timeline of a step; empty: none
  SimFormat format = SimFormat::text;
  bool json = false;
};

/// A page about a run.
struct ReportArgs {
  std::string run;        ///< the folder that was --out
  std::string out;        ///< empty: report.html in the run's folder
  std::string machine;    ///< a machine file whose rates links are compared with; empty: none
  bool simulate = false;  ///< show a simulated step though a recorded one is there
  bool json = false;
};

/// Writes the trace of a model's training step.
struct TraceArgs {
  ModelArgs model;
  uint32_t threads = 0;   ///< 0: every core; each adds workspace to the ops
  std::string out = "-";  ///< a file, or - for stdout
};

struct PoliciesArgs {
  bool json = false;
};

/// How fast this machine is.
struct ProbeArgs {
  ModelArgs model;
  std::vector<std::string> nvme;
  uint64_t nvme_bytes = uint64_t{1} << 30;
  uint64_t block_bytes = 1 << 20;
  uint64_t array_bytes = 256 << 20;
  uint32_t threads = 0;
  uint32_t samples = 5;
  double seconds = 0.3;  ///< of a sample
  std::string out;       ///< a machine file; empty: none is written
  bool json = false;
};

struct BenchStepArgs {
  ModelArgs model;
  OptimizerArgs optimizer;
  uint32_t threads = 0;
  uint64_t seed = 1;
  uint32_t pairs = 7;  ///< alternating pairs of measurements
  bool json = false;
};

struct BenchNvmeArgs {
  std::string directory;
  uint64_t file_bytes = uint64_t{4} << 30;
  uint64_t block_bytes = 1 << 20;
  uint32_t depth = 32;
  uint32_t pairs = 7;
  double seconds = 1.5;  ///< of one measurement
  bool json = false;
};

struct BenchAdamArgs {
  uint32_t threads = 0;
  uint64_t bytes = uint64_t{1} << 30;  ///< of all arrays of one dtype, rounded up
  uint32_t pairs = 15;
  bool json = false;
};

/// Of benches that train within budgets.
struct OffloadBenchArgs {
  ModelArgs model;
  OptimizerArgs optimizer;
  std::vector<std::string> nvme;      ///< directories; none: there is no NVMe tier
  bool nvme_unchecked = false;        ///< no checksums
  uint64_t nvme_rate = 0;             ///< bytes/s at most, both ways together; 0: no limit
  std::vector<std::string> policies;  ///< none: those of the bench
  std::vector<double> model_data;     ///< on the device, of weights, remainders and records
  uint64_t chunk_bytes = 0;
  uint32_t threads = 0;
  uint64_t seed = 1;
  uint32_t pairs = 0;    ///< rounds of measurements that take turns
  uint32_t steps = 8;    ///< timed in each, after two
  double seconds = 0.4;  ///< of a probe
  bool json = false;
};

/// The batch follows from `x`.
struct BenchCurveArgs : OffloadBenchArgs {
  BenchCurveArgs() { model.batch = 1, model_data = {0.6}, pairs = 5; }
  /// Wanted ratios of computing to transfers.
  std::vector<double> x = {0.125, 0.25, 0.5, 1, 2, 4, 8};
};

struct BenchPoliciesArgs : OffloadBenchArgs {
  BenchPoliciesArgs() { model_data = {0.4, 0.6, 0.8}, pairs = 7; }
};

/// --help or --version: print `text` on stdout and exit with 0.
struct TextRequest {
  std::string text;
};

using Command = std::variant<TextRequest, TrainArgs, ResumeArgs, GenerateArgs, EvalArgs,
                             InspectArgs, DoctorArgs, PlanArgs, VerifyArgs, TraceArgs, SimArgs,
                             ReportArgs, PoliciesArgs, ProbeArgs, BenchStepArgs, BenchNvmeArgs,
                             BenchAdamArgs, BenchCurveArgs, BenchPoliciesArgs>;

/// Reads and checks a command line; defaults that depend on other flags are filled in. Throws
/// ConfigError (exit code 2) with one message for an unknown verb or flag, with the nearest known
/// one, and for a value that is not valid, with what is.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace strata
