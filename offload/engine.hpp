// The engine: one issuer, one total order. It owns all logical state and is written against
// `Backend` alone, so the same code runs for real and in virtual time.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "offload/issue_log.hpp"
#include "offload/policy/policy.hpp"
#include "offload/step_record.hpp"
#include "offload/timeline.hpp"

namespace strata {

/// Faults put in on purpose, to show that the tests find them.
struct Mutations {
  /// The n-th op (from 1) does not wait for its fetched weights; 0: none.
  uint64_t skip_fetch_wait = 0;
  /// The n-th pending update (from 1) is dropped; 0: none.
  uint64_t skip_update = 0;
};

/// Hears when an op waits for a copy that was fetched ahead of it: whether it came too late is a
/// question of time, which the engine does not know.
class FetchAheadObserver {
 public:
  virtual ~FetchAheadObserver() = default;
  /// The waits between a call with true and the next with false are for such copies.
  virtual void waits_for_fetched_ahead(bool) = 0;
};

struct EngineOptions {
  /// Global norm bound; 0: no clipping, and updates start inside backward.
  double clip = 0;
  /// Ops the issuer may run ahead of the compute stream; at least 1.
  uint32_t run_ahead = 64;
  /// Not null: every issued record is appended.
  IssueLog* log = nullptr;
  /// For simulations; null: nobody asks.
  FetchAheadObserver* observer = nullptr;
  /// Not null: hears what is issued, and labels it for the backend's streams.
  Timeline* timeline = nullptr;
  Mutations mutations;
};

/// Values of one step that the trainer knows before it is issued.
struct StepParams {
  uint64_t step = 0;  // from 0
  double lr = 0;
  double target_tokens = 1;  // of all micro-batches
};

/// Outcome of a step, read after it is done.
struct StepResult {
  double loss = 0, grad_norm = 0;
  bool applied = true;
  uint32_t nonfinite_grad = UINT32_MAX;
  bool nonfinite_loss = false;
  /// The first tensor with an updated weight that is not finite, in any step so far.
  uint32_t nonfinite_weight = UINT32_MAX;
};

/// Since the engine was made.
struct EngineStats {
  uint64_t h2d_bytes = 0, d2h_bytes = 0, nvme_read_bytes = 0, nvme_write_bytes = 0;
  /// Of the copies that ops use: those that were on the device, or on their way to it, and those
  /// fetched only then.
  uint64_t hits = 0, demand_misses = 0;
  /// Copies fetched ahead of their op, and those of them that no op used before they were dropped
  /// or out of date.
  uint64_t prefetches = 0, wasted_prefetches = 0;
  uint64_t weight_fetches = 0;
  uint64_t hints_skipped = 0, evictions = 0, updates = 0;
  /// Updates made before the step-wide value was known, and those of them that were undone, since
  /// it was another than they took: these are not among `updates`.
  uint64_t speculated_updates = 0, undone_updates = 0;
};

class Engine final : public OpSink, private OpScope {
 public:
  /// If any program trains, `programs[0]` does. Everything referred to must outlive the engine.
  /// Allocates both arenas and charges the ledger; throws DoesNotFit when the plan exceeds a limit.
  Engine(Backend&, const ChunkLayout&, const StateShape&, const Plan&, const Policy&,
         const Updater&, std::vector<const Program*> programs, Ledger&, const EngineOptions&);
  ~Engine() override;

  // ---- state in and out; not for steady state
  using FillFn = std::function<void(uint64_t begin, uint64_t n, float* out)>;
  /// Zeroes everything. Call once, before `set_weight`.
  void zero_state();
  /// Sets a parameter's master weights from blocks of fp32. Runs pending updates first.
  void set_weight(ParamId, const FillFn&);
  using VisitFn = std::function<void(uint64_t offset, const std::byte* data, size_t bytes)>;
  /// Shows a plane of a parameter as stored, in blocks of at most 1 MiB, each at its offset in
  /// bytes, ascending. Runs pending updates first.
  void visit(ParamId, Plane, const VisitFn&);
  using LoadFn = std::function<void(uint64_t offset, std::byte* to, size_t bytes)>;
  /// The reverse: sets a plane of a parameter, as stored, from blocks of at most 1 MiB, ascending.
  void load(ParamId, Plane, const LoadFn&);

  // ---- running
  /// Starts a run of a program: a training step, or an evaluation of one micro-batch.
  void begin(uint32_t program, const StepParams& = {});
  /// Ends it. For a training program, issues the norm and makes updates pending.
  void end();
  /// In virtual time: issues all ops of the current program without the model's code.
  void run_program();
  /// In virtual time, where values are not known: whether from now on steps clip or fail, which
  /// speculation does not expect.
  void assume_unexpected(bool unexpected) noexcept { assumed_unexpected_ = unexpected; }
  /// Runs every pending update: before checkpoints and exports.
  void flush();
  /// Blocks until the training step that is `back` steps before the newest (0 or 1) is done.
  StepResult result(uint32_t back);
  /// Blocks until the evaluation that just ended is done; the sum of token losses.
  double evaluation_loss();

  const EngineStats& stats() const noexcept { return stats_; }
  /// What lives in a unit of a place between uses, as "m of chunk 3 (h.0.ln_1.weight, ...)".
  std::string describe_home(Place, UnitId) const;
  const ChunkTable& table() const noexcept { return table_; }

 private:
  struct StepMirror {
    StepRecord record;
    Hazard hazard;
    Fence done;
    std::array<Fence, kResources> updates;  // the last update of the step on each stream
  };

  /// Whether a device copy was fetched before the op that needs it was issued.
  enum class Ahead : uint8_t { no, waiting, needed };

  // OpSink
  OpScope* enter(const OpInfo&, std::initializer_list<TensorUse>, std::initializer_list<ValueId>,
                 std::initializer_list<ValueId>) override;
  void leave() override;
  // OpScope
  Stream& stream() const override;
  const void* weight(ParamId) const override;
  void* gradient(ParamId) const override;
  ScatteredTensor accumulator(ParamId) const override;
  DType accumulator_type(ParamId) const override { return shape_.grad_type(); }
  void* value(ValueId) const override;
  std::byte* workspace() const override;
  uint32_t micro_batch() const override;
  double* loss() const override;

  // engine.cpp: the flow of one op and one step
  void expect_op(const char* name) const;
  void begin_op();
  void end_op();
  void add_staged_gradients(const ProgramOp&);
  void zero_sparse_gradients(const ProgramOp&);
  void run_actions();
  void look_ahead();
  void apply(const Action&);

  // engine_updates.cpp: from a final gradient to the update
  void sum_squares(ChunkId);
  void gradient_complete(ChunkId, const Fence& op);
  void set_ready(ChunkId, bool);
  void retire_weights(ChunkId);
  void issue_norm();
  template <class Which>
  void run_updates(const Which&);
  bool make_room_for_update(ChunkId, OpIndex needed_by);
  void update(ChunkId);
  bool survives_until_update(ChunkId) const;

  // engine_speculation.cpp: updates before the step-wide value is known
  void create_older(ChunkId);
  void keep_older(ChunkId);
  bool speculates_now(ChunkId);
  void expect_as(const StepMirror&);
  void conclude_speculation();
  void go_back(ChunkId);
  const ProgramOp& current_op() const { return program_->ops()[cursor_]; }

  // engine_moves.cpp: units and copies
  void make_present(const ObjUse&);
  bool try_attach(ObjId, bool may_evict);
  std::optional<UnitId> acquire_unit(Category, Take, bool may_evict);
  /// Planes on NVMe come to the device for their update.
  bool updates_on_device() const noexcept {
    return plan_.nvme_units != 0 && plan_.staging == Place::device;
  }
  /// Evicts the policy's choice among copies whose next use is at least so many ops away. False:
  /// there is none.
  bool evict_one(OpIndex least_distance);
  void transfer(ObjId, const UnitList&, Place from, const UnitList&, Place to);
  void move(ObjId, Place from, Place to);
  void fetch(ObjId);
  void write_back(ObjId, Place from);
  void drop_copy(ObjId, Place, Freed = Freed::by_compute);
  void evict(ObjId);
  Place stage(ObjId);
  void unstage(ObjId, Place, bool changed);
  bool evictable(ObjId) const;
  bool may_be_evicted(ObjId) const;
  void now_on_device(ObjId, bool);
  OpIndex next_use(ObjId);
  UnitList acquire_below(ObjId, Place);
  bool attach_below(ObjId, Place);
  UnitPool& pool(Place p) { return *pools_[static_cast<size_t>(p)]; }
  const UnitPool& pool(Place p) const { return *pools_[static_cast<size_t>(p)]; }
  std::byte* address(ObjId, Place, uint64_t chunk_offset, size_t elem_size) const;
  void expect_declared(ParamId, Plane) const;
  using PlanePlaces = std::array<Place, kPlanes>;
  PlaneAddresses addresses(ChunkId, const PlanePlaces&) const;
  void note(Issued, ObjId = {}, UnitId = 0);
  void create_objects();
  void fetch_kept_weights();
  template <class Block>
  void for_each_block(const Piece&, Plane, const Block&) const;
  void settle();
  void read_units(const UnitList&, Place, Resource, const Fence&);
  void write_units(const UnitList&, Place, Resource, const Fence&);
  void order_reads(const UnitList&, Place, Resource);
  void order_writes(const UnitList&, Place, Resource);
  const UnitList& units_of(ObjId id, Place p) const { return table_.at(id).at(p).units; }
  static size_t object_index(ObjId id) noexcept {
    return id.chunk * kPlanes + static_cast<size_t>(id.plane);
  }
  uint64_t& last_use(ObjId id) { return last_use_[object_index(id)]; }
  /// After `fetch`: it was ahead of the op that needs the copy.
  void begin_prefetch(ObjId);
  /// The copy does not wait for its op any more: that is issued, or it was for nothing.
  void end_prefetch(ObjId, Ahead becomes);
  Category category_of(Plane) const noexcept;

  Backend& backend_;
  const ChunkLayout& layout_;
  const StateShape& shape_;
  const Plan& plan_;
  const Policy& policy_;
  const Updater& updater_;
  std::vector<const Program*> programs_;
  Ledger& ledger_;
  EngineOptions options_;

  Arena device_arena_, host_arena_, nvme_arena_;
  WindowMap windows_;
  RecordLayout records_;
  Reservation non_model_;
  std::array<std::unique_ptr<UnitPool>, kPlaces> pools_;
  ChunkTable table_;
  std::byte* values_ = nullptr;
  std::byte* record_base_ = nullptr;
  std::unique_ptr<NormTable> norm_table_;
  Hazard record_hazard_;
  std::array<StepMirror, 2> mirrors_;
  std::atomic<uint32_t> nonfinite_weight_{UINT32_MAX};
  std::vector<kernels::StepScale> chunk_scales_;  // host mirror
  std::vector<Hazard> chunk_scale_hazards_;

  // the program being run, or run last; the first before any was
  const Program* program_ = nullptr;
  uint32_t program_index_ = 0;
  OpIndex cursor_ = 0;
  size_t next_action_ = 0;
  bool running_ = false;  // between `begin` and `end`
  bool in_op_ = false;    // stays set when an op's body throws: the engine is not usable then
  StepParams step_;
  uint64_t steps_begun_ = 0;

  // pending updates and what they need of their step
  struct Pending {
    bool ready = false;       // gradient final, step-wide value not known yet
    bool pending = false;     // may run now
    bool speculated = false;  // was made, not known whether rightly; not pending
    bool older_kept = false;  // what the next update changes on the device is on NVMe too
    double lr = 0;
    uint32_t mirror = 0;
  };
  std::vector<Pending> pending_;
  uint64_t updates_seen_ = 0;
  std::vector<ChunkId> ready_;  // those that are `Pending::ready`
  uint32_t speculated_ = 0;     // chunks that are `Pending::speculated`
  /// Whether the last step-wide value known was as speculation expects; while it is not, updates
  /// wait for it.
  bool expects_ = true;
  bool assumed_unexpected_ = false;
  bool expectation_known_ = true;  // of the step before the newest
  /// As `nonfinite_weight_`, of updates that may still turn out wrong.
  std::atomic<uint32_t> speculated_nonfinite_{UINT32_MAX};
  uint64_t unready_grad_units_ = 0;  // of the gradients of all others

  /// `object_index` of copies on the device that may be evicted while they are not pinned,
  /// ascending: the order of victims.
  std::vector<size_t> evictable_;
  /// Where an object is used next, counted on past the end of the program.
  struct NextUse {
    uint32_t run = 0;  // of `runs_`; any other is not known
    OpIndex at = 0;    // holds until the op is issued
  };
  std::vector<NextUse> next_use_;  // per object
  uint32_t runs_ = 1;

  std::vector<uint64_t> last_use_;  // per object
  std::vector<Ahead> ahead_;        // per object
  std::vector<UnitList> older_;     // per object, on NVMe: the version before the newest
  uint32_t waiting_prefetches_ = 0;
  uint64_t tick_ = 0;             // ops issued over the whole run
  std::vector<Fence> op_fences_;  // ring of `run_ahead`
  std::vector<Victim> victims_;
  EngineStats stats_;
};

}  // namespace strata
