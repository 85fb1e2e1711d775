// The canonical trace of one micro-batch: tensors, values, blocks and ops; never chunks, budgets,
// ranks, policies or micro-batch order.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "offload/op.hpp"

namespace strata {

enum class CallKind : uint8_t {
  forward,
  /// Runs a block's forward ops again to rebuild the values its backward reads.
  reforward,
  backward,
  /// Work left until after the last micro-batch, per micro-batch in ascending order (lookup
  /// gradients of tied embeddings).
  tail
};
const char* name_of(CallKind) noexcept;

struct ValueSpec {
  std::string name;
  uint64_t bytes;
  bool operator==(const ValueSpec&) const = default;
};

struct TraceOp {
  std::string name;
  uint64_t flops, bytes, workspace;
  std::vector<TensorUse> uses;
  std::vector<ValueId> in, out;
  /// Measured or estimated; 0: not known, and FLOPs and bytes say what there is to do.
  double seconds = 0;
  bool operator==(const TraceOp&) const = default;
};

/// The ops of one call of the model: (kind, block).
struct TraceSegment {
  CallKind kind;
  uint32_t block;
  std::vector<TraceOp> ops;
  bool operator==(const TraceSegment&) const = default;
};

struct Trace {
  uint32_t blocks = 0;
  std::vector<ValueSpec> values;
  std::vector<TraceSegment> segments;
  /// Blocks whose forward ops may run again in backward and save memory by it, ascending.
  std::vector<uint32_t> recomputable;

  const TraceSegment* find(CallKind, uint32_t block) const noexcept;
  bool operator==(const Trace&) const = default;
};

/// Records what a model declares. Call `begin` before each call of the model's code.
class Tracer final : public OpSink {
 public:
  Tracer(uint32_t blocks, std::vector<ValueSpec> values);
  /// Blocks in ascending order.
  void can_recompute(uint32_t block) { trace_.recomputable.push_back(block); }
  void begin(CallKind, uint32_t block);
  /// Without the calls that declared no op.
  Trace take();

 private:
  OpScope* enter(const OpInfo&, std::initializer_list<TensorUse>, std::initializer_list<ValueId> in,
                 std::initializer_list<ValueId> out) override;
  void leave() override {}

  Trace trace_;
};

}  // namespace strata
