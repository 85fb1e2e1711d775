// A small residual network with a tied embedding, a frozen and an unused tensor: real kernels, none
// of the product's models, so that the engine is tested on its own.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "offload/program.hpp"

namespace strata::toy {

struct Shape {
  uint32_t layers = 3, width = 24, vocabulary = 40, rows = 6;
  DType dtype = DType::f32;
};

/// x0 = emb[token]; x_i = x_{i-1} + tanh(x_{i-1} W_i + b_i); score = sum_j x_L[j] f[j]
/// emb[target][j]; loss = 0.5 (score - 1)^2 per row.
class Model {
 public:
  explicit Model(const Shape&);

  const std::vector<ParamSpec>& params() const { return params_; }
  uint32_t blocks() const { return shape_.layers + 2; }
  std::vector<ValueSpec> values() const;
  Trace trace(bool training);
  void run(OpSink&, const BlockCall&, bool training);
  /// The initial master weight of one element.
  float initial(ParamId, uint64_t element) const;

  /// Batches of the step to run: `tokens` and `targets` of every micro-batch, rows each.
  std::array<std::vector<int32_t>, 2> tokens, targets;
  uint32_t slot = 0;

 private:
  struct Layer {
    ParamId w, b;
    ValueId h, x, dh, dx;
  };
  void forward(OpSink&, uint32_t block, bool training);
  void backward(OpSink&, uint32_t block);
  void tail(OpSink&);

  Shape shape_;
  std::vector<ParamSpec> params_;
  ParamId emb_ = 0, frozen_ = 0;
  ValueId tokens_ = 0, targets_ = 1, x0_ = 2, dx0_ = 3;
  std::vector<Layer> layers_;
};

}  // namespace strata::toy
