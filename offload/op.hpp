// What a model's code talks to. The same code declares its ops while tracing and runs them later.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include "chunk/param.hpp"
#include "runtime/backend.hpp"

namespace strata {

using ValueId = uint32_t;
using OpIndex = uint32_t;

enum class Access : uint8_t {
  read,
  /// This op makes the whole gradient of the tensor for its micro-batch (`OpScope::gradient`); the
  /// engine adds it to the accumulator.
  write,
  /// This op adds to the accumulator itself (`OpScope::accumulator`); for sparse row gradients.
  accumulate
};

struct TensorUse {
  ParamId param;
  Plane plane;
  Access access;
  bool operator==(const TensorUse&) const = default;
};
constexpr TensorUse reads(ParamId p) { return {p, Plane::weight, Access::read}; }
constexpr TensorUse grad_of(ParamId p) { return {p, Plane::grad, Access::write}; }
constexpr TensorUse adds_to_grad_of(ParamId p) { return {p, Plane::grad, Access::accumulate}; }

/// A kernel group. FLOPs count multiplications and additions; bytes are what the op reads and
/// writes in memory.
struct OpInfo {
  const char* name;
  uint64_t flops = 0;
  uint64_t bytes = 0;
  uint64_t workspace = 0;  // bytes, alive during this op only
};

/// A tensor whose elements may lie in several runs of memory, in element order.
struct ScatteredTensor {
  static constexpr uint32_t kMaxPieces = 4;
  struct Piece {
    void* data;
    uint64_t begin, elems;  // element indices of the tensor
  };
  uint32_t count = 0;
  std::array<Piece, kMaxPieces> pieces{};
};

/// What an op's body sees. Pointers are valid for work enqueued on `stream()` inside the body.
class OpScope {
 public:
  virtual ~OpScope() = default;
  virtual Stream& stream() const = 0;
  /// The whole tensor, contiguous, in its own dtype. Only parameters the op declared.
  virtual const void* weight(ParamId) const = 0;
  /// Where the op writes the micro-batch's gradient: contiguous, in the weight's dtype.
  virtual void* gradient(ParamId) const = 0;
  /// The gradient accumulator (see `accumulator_type`), holding zeros or earlier contributions.
  virtual ScatteredTensor accumulator(ParamId) const = 0;
  virtual DType accumulator_type(ParamId) const = 0;
  /// An activation of this micro-batch. Only values the op declared.
  virtual void* value(ValueId) const = 0;
  virtual std::byte* workspace() const = 0;
  virtual uint32_t micro_batch() const = 0;
  /// This micro-batch's sum of token losses; the op that computes the loss writes it.
  virtual double* loss() const = 0;
};

/// Declares or runs ops. Single-threaded: the issuer's.
class OpSink {
 public:
  virtual ~OpSink() = default;

  /// `in` and `out`: values read and made; an op's outputs never alias its inputs.
  template <class Body>
  void op(const OpInfo& info, std::initializer_list<TensorUse> uses,
          std::initializer_list<ValueId> in, std::initializer_list<ValueId> out, Body&& body) {
    if (OpScope* scope = enter(info, uses, in, out)) {
      body(static_cast<OpScope&>(*scope));
      leave();
    }
  }

 private:
  /// Null when the body is not to run: while tracing, in virtual time, or for a re-forward's op
  /// whose results nobody reads.
  virtual OpScope* enter(const OpInfo&, std::initializer_list<TensorUse>,
                         std::initializer_list<ValueId> in, std::initializer_list<ValueId> out) = 0;
  virtual void leave() = 0;
};

}  // namespace strata
