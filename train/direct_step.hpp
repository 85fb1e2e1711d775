// A training step as the bare kernels: what the runtime is measured against.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "offload/engine.hpp"
#include "runtime/thread_pool.hpp"
#include "train/session.hpp"

namespace strata {

/// Calls the kernels of a step one after another, in the program's order, with every plane in plain
/// memory: no engine, streams, fences, units or copies. It computes what a Session does, to the
/// bit. One thread at a time.
class DirectStep final : private OpSink, private OpScope {
 public:
  /// Initialises the weights. Throws OutOfMemory. The workload trains, and outlives it.
  explicit DirectStep(const Workload&);

  /// Seconds.
  struct Times {
    double compute = 0;  ///< forward, loss and backward
    double norm = 0;     ///< square sums and what follows from them
    double update = 0;

    double sum() const noexcept { return compute + norm + update; }
  };
  Times step(const TokenBatch&, const StepParams&);

  const StepRecord& record() const noexcept { return *record_; }
  /// A plane of a parameter, as stored.
  std::vector<std::byte> read(ParamId, Plane) const;

 private:
  class InlineStream final : public Stream {
   public:
    explicit InlineStream(ThreadPool& pool) : context_{pool} {}

   private:
    void do_wait(const Fence&) override {}
    void do_copy(void* dst, const void* src, size_t bytes) override;
    void do_launch(KernelFn fn, const void* args, size_t, Cost) override { fn(&context_, args); }
    Fence do_record() override { return {}; }

    HostContext context_;
  };

  // OpSink
  OpScope* enter(const OpInfo&, std::initializer_list<TensorUse>, std::initializer_list<ValueId>,
                 std::initializer_list<ValueId>) override;
  void leave() override;
  // OpScope
  Stream& stream() const override { return stream_; }
  const void* weight(ParamId p) const override { return address(p, Plane::weight); }
  void* gradient(ParamId) const override;
  ScatteredTensor accumulator(ParamId) const override;
  DType accumulator_type(ParamId) const override { return shape_.grad_type(); }
  void* value(ValueId) const override;
  std::byte* workspace() const override { return values_ + op().workspace_offset; }
  uint32_t micro_batch() const override { return op().micro_batch; }
  double* loss() const override { return losses() + op().micro_batch; }

  const ProgramOp& op() const { return program_.ops()[cursor_]; }
  std::byte* address(ParamId, Plane) const;
  std::byte* chunk(ChunkId, Plane) const;
  PlaneAddresses addresses(ChunkId) const;
  double* losses() const;
  kernels::StepScale* scales() const;
  void add_staged_gradients();
  void sum_squares(ChunkId);
  void update(ChunkId, const kernels::StepScale*);
  void update_retired();
  void finish();
  void initialize();

  const Workload& workload_;
  const PlanInput input_;
  const ChunkLayout& layout_;
  const StateShape& shape_;
  const Program& program_;
  mutable ThreadPool pool_;
  mutable InlineStream stream_;
  Arena arena_;
  /// Chunk after chunk, so that a tensor is contiguous wherever it lies.
  std::array<std::byte*, kPlanes> planes_{};
  std::array<uint64_t, kPlanes> chunk_bytes_{};
  RecordLayout records_;
  std::byte* record_base_ = nullptr;
  StepRecord* record_ = nullptr;
  std::byte* values_ = nullptr;
  std::unique_ptr<NormTable> norm_table_;
  std::atomic<uint32_t> nonfinite_{UINT32_MAX};

  OpIndex cursor_ = 0;
  StepParams params_;
  std::vector<bool> ready_;  // of each chunk: its gradient is final, its update to come
  Times times_;
};

}  // namespace strata
