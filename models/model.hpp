// What a model family gives the trainer: parameters, values, and its blocks' code.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "offload/trace.hpp"

namespace strata {

/// `generate`: forward over one sequence, then the logits of one of its positions.
enum class Mode : uint8_t { train, eval, generate };

/// One micro-batch's shape.
struct BatchShape {
  uint32_t batch = 1, seq = 1;
  /// Micro-batches a step, which the loss gradient is scaled for.
  uint32_t micro_batches = 1;
  uint64_t rows() const noexcept { return uint64_t{batch} * seq; }
};

/// Where a step's tokens lie: `rows` int32 each for every micro-batch, one after another. The
/// memory must stay as it is until the step is done.
struct TokenBatch {
  const int32_t* tokens = nullptr;
  const int32_t* targets = nullptr;  // -1: no loss at this position; not used to generate
  /// To generate: the position whose logits are wanted. Positions after it are padding, which no
  /// earlier one sees; their tokens are any of the vocabulary.
  uint32_t position = 0;
  /// To generate: `vocabulary` floats, written by the compute stream.
  float* logits = nullptr;
};

/// A model is a list of blocks. The same code declares ops to a tracer and runs them in the engine.
class Model {
 public:
  virtual ~Model() = default;

  /// Every tensor, in computation order.
  virtual const std::vector<ParamSpec>& params() const = 0;
  virtual const std::vector<ValueSpec>& values() const = 0;
  virtual uint32_t blocks() const = 0;
  virtual uint32_t vocabulary() const = 0;
  /// The longest sequence it takes.
  virtual uint32_t positions() const = 0;
  /// Whether recomputing the block in backward saves memory.
  virtual bool recomputable(uint32_t block) const = 0;
  /// Runs or declares one call.
  virtual void run(OpSink&, CallKind, uint32_t block, Mode) = 0;
  /// Initial master weights of elements [begin, begin + n).
  virtual void initialize(ParamId, uint64_t seed, uint64_t begin, uint64_t n, float* out) const = 0;

  void set_batch(const TokenBatch& batch) noexcept { batch_ = batch; }

 protected:
  TokenBatch batch_;
};

/// The model's canonical trace.
Trace trace_model(Model&, Mode);

}  // namespace strata
