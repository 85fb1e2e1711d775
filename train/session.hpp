// One configuration: lowered, planned, and then run.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/model.hpp"
#include "offload/nvme/store.hpp"
#include "offload/planner.hpp"
#include "runtime/host/host_backend.hpp"
#include "train/schedule.hpp"

namespace strata {

/// Of `SessionConfig::recompute`.
constexpr uint32_t kAllBlocks = UINT32_MAX;

struct SessionConfig {
  std::string model = "gpt2";
  BatchShape shape;
  DType dtype = DType::f32;
  /// The first so many of the blocks that can be are rebuilt in backward instead of kept.
  uint32_t recompute = 0;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
  OptimizerConfig optimizer;
  double clip = 1.0;
  uint64_t seed = 1;
  std::string policy = "auto";
  /// Bytes of a chunk's weight plane; 0: searched.
  uint64_t chunk_bytes = 0;
  uint32_t threads = 1;
  /// What times are predicted from.
  VirtualRates rates;
  Objective objective = Objective::time;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
  /// What is planned: at least one of these. Without training there are weights alone, no
  /// gradients or records, and in bf16 no remainders.
  bool trains = true, evaluates = true, generates = false;
};

/// The pure part: model, layout, programs, policy. Allocates nothing of the model's size.
class Workload {
 public:
  /// Throws ConfigError.
  explicit Workload(const SessionConfig&);
  Workload(const Workload&) = delete;

  const SessionConfig& config() const noexcept { return config_; }
  /// For what all its programs share: parameters, vocabulary, positions.
  Model& model() const noexcept { return *models_.front(); }
  const ChunkLayout& layout() const noexcept { return *layout_; }
  const StateShape& shape() const noexcept { return *shape_; }
  /// A program and the model whose code it lists.
  struct Planned {
    Mode mode;
    uint32_t seq;  // tokens of a sequence
    Model* model;
    std::unique_ptr<Program> program;
  };
  /// As the engine numbers them: training, evaluation, then one to generate for each sequence
  /// length, ascending: 64, 128 and so on, and last all positions of the model.
  std::span<const Planned> programs() const noexcept { return programs_; }
  /// The first program of a mode. Throws StateError when none was asked for.
  uint32_t index_of(Mode) const;
  const Program& program(Mode m) const { return *programs_[index_of(m)].program; }
  const Policy& policy() const noexcept { return *policy_; }
  PlanInput plan_input(const Budgets&) const;
  PlanResult plan(const Budgets& b) const { return make_plan(plan_input(b)); }
  /// Bytes of all weights, gradients and records.
  uint64_t state_bytes() const noexcept;
  uint64_t weight_bytes() const noexcept;
  /// What decides the bits of a run, as text; placement, budgets and threads are not in it.
  std::string numerics_key(uint64_t data_hash, const LrSchedule&) const;

 private:
  void lower(Mode, uint32_t seq, Model&);

  SessionConfig config_;
  std::vector<std::unique_ptr<Model>> models_;
  std::optional<ChunkLayout> layout_;
  std::vector<Planned> programs_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<Policy> policy_;
  std::optional<StateShape> shape_;
};

/// With accumulation, the order whose plan is predicted to be faster under the budgets, or that
/// fits.
MicroBatchOrder choose_order(SessionConfig, const Budgets&);

/// Where the NVMe tier is, if there is one.
struct NvmePlace {
  std::vector<std::string> directories;
  std::string engine = "auto";
  /// What is read is compared with a hash of what was written.
  bool checksums = true;
  /// A transfer that takes longer is an error.
  double timeout_seconds = 60;
  /// Not 0: transfers are no faster, both ways together.
  double bytes_per_second = 0;
  /// For tests: see NvmeStore.
  WrapSink wrap = nullptr;
  void* wrap_context = nullptr;
  Files* files = nullptr;  // null: the operating system's
};

struct RunOptions {
  uint64_t delay_seed = 0;
  LinkRate h2d, d2h;
  IssueLog* log = nullptr;
  /// Not null: records what streams do; outlives the session.
  Timeline* timeline = nullptr;
  Mutations mutations;
  NvmePlace nvme;
  /// False: all state is zero, for whoever loads it.
  bool initialize = true;
};

/// A planned workload with its memory and files, on the host backend.
class Session {
 public:
  /// Throws DoesNotFit, before allocating, when the plan does not fit.
  Session(const Workload&, const PlanResult&, const Budgets&, const RunOptions& = {});
  ~Session();

  /// Issues one training step. `batch` must stay as it is until the step after next is issued.
  void step(const TokenBatch& batch, const StepParams& params);
  /// The outcome of the step `back` (0 or 1) before the newest.
  StepResult result(uint32_t back) { return engine_->result(back); }
  /// Sum of token losses of one micro-batch.
  double evaluate(const TokenBatch& batch);
  /// The logits of the token that follows `tokens`, of which there may be as many as the model has
  /// positions; `logits` is as long as its vocabulary. Done when it returns.
  void next_logits(std::span<const int32_t> tokens, std::span<float> logits);
  void flush() { engine_->flush(); }

  Engine& engine() noexcept { return *engine_; }
  const Ledger& ledger() const noexcept { return ledger_; }
  HostBackend& backend() noexcept { return *backend_; }
  /// Null when nothing lives on NVMe.
  const NvmeStore* nvme() const noexcept { return store_.get(); }
  /// A plane of a parameter, as stored. Runs pending updates first.
  std::vector<std::byte> read(ParamId, Plane);
  /// Hash over every tensor's weights, remainders and records, as stored.
  uint64_t state_hash();

 private:
  void run(uint32_t program, const TokenBatch&, const StepParams&);
  void initialize();

  const Workload& workload_;
  Plan plan_;
  std::shared_ptr<const Policy> policy_;  // what the plan is run with
  PlanInput input_;
  Ledger ledger_;
  std::vector<Reservation> external_;
  std::unique_ptr<NvmeStore> store_;
  // Streams read and write these: they outlive the backend.
  std::vector<int32_t> sequence_;
  std::vector<float> logits_;
  std::unique_ptr<HostBackend> backend_;
  std::unique_ptr<Engine> engine_;
};

/// Planes of a parameter that make its state: weight, and remainder, m, v where it is trained.
std::vector<Plane> state_planes(const Workload&, ParamId);

}  // namespace strata
