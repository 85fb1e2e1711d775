// GPT-2: learned positions, pre-norm blocks, tanh-GELU, tied embeddings, no dropout. Tensor names
// and shapes are Hugging Face's (linear weights [in, out]).
#pragma once
#include "models/gpt2_config.hpp"
#include "models/gpt2_kernels.hpp"
#include "models/model.hpp"
#include "models/registry.hpp"

namespace strata {

/// Blocks: the embedding, one a layer, the head (final norm, logits, and loss or one row of them).
class Gpt2 final : public Model {
 public:
  /// Throws ConfigError when the sequence is longer than the model's positions.
  Gpt2(const Gpt2Config&, const ModelOptions&);

  const std::vector<ParamSpec>& params() const override { return params_; }
  const std::vector<ValueSpec>& values() const override { return values_; }
  uint32_t blocks() const override { return config_.layers + 2; }
  uint32_t vocabulary() const override { return config_.vocabulary; }
  uint32_t positions() const override { return config_.positions; }
  bool recomputable(uint32_t block) const override { return block != 0 && block <= config_.layers; }
  void run(OpSink&, CallKind, uint32_t block, Mode) override;
  /// Normal with deviation 0.02, the projections into the residual stream divided by
  /// sqrt(2 * layers); norms 1, biases 0 (Radford et al., 2019).
  void initialize(ParamId, uint64_t seed, uint64_t begin, uint64_t n, float* out) const override;

 private:
  struct Norm {
    ParamId gamma, beta;
  };
  struct Linear {
    ParamId weight, bias;
  };
  struct Layer {
    Norm ln_1, ln_2;
    Linear attn, attn_proj, fc, fc_proj;
    // values: forward
    ValueId ln1, ln1_stats, qkv, att, lse, mid, ln2, ln2_stats, fc_pre, fc_act, out;
    // values: backward
    ValueId dout, dfc, dln2, dmid, datt, dqkv, dln1;
  };

  Norm add_norm(const std::string& name);
  Linear add_linear(const std::string& name, uint32_t in, uint32_t out);
  ParamId add_param(std::string name, std::vector<int64_t> shape, bool decay);
  ValueId add_value(std::string name, uint64_t bytes);
  void add_layer_values(Layer&, const std::string& name);

  void embed_forward(OpSink&, Mode);
  void embed_backward(OpSink&);
  void embed_tail(OpSink&);
  void layer_forward(OpSink&, uint32_t layer);
  void layer_backward(OpSink&, uint32_t layer);
  void head_forward(OpSink&, Mode);
  void head_logits(OpSink&);
  void head_backward(OpSink&);

  void norm_forward(OpSink&, const char* name, const Norm&, ValueId x, ValueId y, ValueId stats);
  void norm_backward(OpSink&, const char* name, const Norm&, ValueId dy, ValueId x, ValueId stats,
                     ValueId residual, bool has_residual, ValueId dx);

  ValueId layer_input(uint32_t layer) const { return layer == 0 ? x0_ : layers_[layer - 1].out; }
  /// Gradient of what the layer read.
  ValueId layer_dinput(uint32_t layer) const { return layer == 0 ? dx0_ : layers_[layer - 1].dout; }

  Gpt2Config config_;
  ModelOptions options_;
  uint64_t rows_;
  Gpt2Kernels kernels_;
  std::vector<ParamSpec> params_;
  std::vector<ValueSpec> values_;
  ParamId wte_ = 0, wpe_ = 0;
  Norm ln_f_{};
  ValueId tokens_ = 0, targets_ = 0, x0_ = 0, dx0_ = 0, lnf_ = 0, lnf_stats_ = 0, dlnf_ = 0;
  ValueId last_ = 0, logits_ = 0;  // of the position to generate from
  std::vector<Layer> layers_;
};

}  // namespace strata
