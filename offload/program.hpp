// A trace lowered onto a chunk layout and a schedule: ops in issue order over objects.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chunk/table.hpp"
#include "offload/trace.hpp"

namespace strata {

/// All blocks of one micro-batch after the other, or all micro-batches of one block: then weights
/// and gradients move once a step however many there are, and all values are alive at once. Sums go
/// over micro-batches in the same order either way, unless an op of another block adds to the same
/// tensor's gradient.
enum class MicroBatchOrder : uint8_t { horizontal, vertical };

/// How the micro-batches of a step are run.
struct Schedule {
  /// Micro-batches a step; 1 means no accumulation.
  uint32_t micro_batches = 1;
  /// Rebuild the values inside these blocks in backward instead of keeping them; empty: none.
  std::vector<bool> recompute;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
};

/// Recomputes the first so many of the blocks that the trace says can be.
Schedule make_schedule(const Trace&, uint32_t micro_batches, uint32_t recompute,
                       MicroBatchOrder = MicroBatchOrder::horizontal);

struct ObjUse {
  ObjId object;
  Access access;
};

/// A tensor gradient that an op makes.
struct GradTarget {
  ParamId param;
  /// No earlier op of the step contributed to this tensor's gradient.
  bool first;
  /// The op writes into the accumulator's memory; else into staging, and the engine adds.
  bool direct;
  /// The op adds rows by itself.
  bool sparse;
  uint64_t staging_offset;  // bytes from the start of the op's staging
};

struct ValueRef {
  ValueId value;
  uint64_t offset;  // bytes from the start of the non-model region
};

struct ProgramOp {
  const char* name;
  uint32_t call;  // index into Program::calls
  uint32_t micro_batch;
  bool skip;  // a re-forward's op whose results nobody reads
  uint64_t flops, bytes;
  double seconds;  // 0: not known
  uint64_t workspace_offset, staging_offset;
  std::span<const ObjUse> uses;  // distinct objects
  std::span<const GradTarget> grads;
  std::span<const ValueRef> values;
  std::span<const ChunkId> completes;  // chunks whose gradient is final after this op
};

struct BlockCall {
  CallKind kind;
  uint32_t block, micro_batch;
  OpIndex first_op, end_op;
};

/// Immutable once lowered. The trainer executes `calls` in order; the engine follows `ops`.
class Program {
 public:
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;

  /// Throws StateError when a value is read before it is made or a frozen tensor gets a gradient.
  static Program lower(const Trace&, const ChunkLayout&, const Schedule&);

  std::span<const BlockCall> calls() const noexcept { return calls_; }
  std::span<const ProgramOp> ops() const noexcept { return ops_; }
  uint32_t micro_batches() const noexcept { return micro_batches_; }
  /// Bytes of all values, workspaces and gradient staging, packed.
  uint64_t non_model_bytes() const noexcept { return non_model_bytes_; }
  uint64_t value_peak_bytes() const noexcept { return value_peak_bytes_; }
  DType accumulator_type(DType weight) const noexcept {
    return micro_batches_ > 1 ? DType::f32 : weight;
  }
  /// Whether some op contributes to this tensor's gradient; tensors without are never updated.
  bool has_gradient(ParamId p) const noexcept { return has_gradient_[p]; }
  bool trains() const noexcept { return trains_; }
  /// The first op at or after `from` that uses the object, or `ops().size()`.
  OpIndex next_use(ObjId, OpIndex from) const noexcept;

 private:
  struct Lowering;
  Program() = default;

  uint32_t micro_batches_ = 1;
  uint64_t non_model_bytes_ = 0, value_peak_bytes_ = 0;
  bool trains_ = false;
  std::vector<BlockCall> calls_;
  std::vector<ProgramOp> ops_;
  std::vector<bool> has_gradient_;
  // Backing store of the spans in `ops_`; a vector's move keeps them valid.
  std::vector<ObjUse> uses_;
  std::vector<GradTarget> grads_;
  std::vector<ValueRef> values_;
  std::vector<ChunkId> completes_;
  std::vector<std::string> names_;
  std::vector<OpIndex> use_ops_;     // per object, ascending
  std::vector<uint32_t> use_begin_;  // prefix offsets, by object index
};

}  // namespace strata
