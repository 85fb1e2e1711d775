// GPT-2's kernels at one shape: what each op costs, and how it is put on a stream. The only part of
// the model that knows the backend.
#pragma once
#include <array>
#include <memory>

#include "models/gpt2_config.hpp"
#include "models/registry.hpp"
#include "offload/op.hpp"

namespace strata {

/// The four linear layers of a block. `fc` goes through the GELU, the projections add the residual.
enum class LinearKind : uint8_t { attn, attn_proj, fc, fc_proj };

struct LinearArgs {
  void* y;
  const void *x, *weight, *bias;
  const void* residual;  // added to y; projections only
  void* activated;       // gelu(y); fc only
  std::byte* workspace;
};

struct LinearBackwardArgs {
  void *dx, *dweight, *dbias;
  const void *dy, *x, *weight;
  const void* pre;  // not null: dx is multiplied by gelu'(pre)
  std::byte* workspace;
};

struct NormBackwardArgs {
  void *dx, *dgamma, *dbeta;
  const void *dy, *x, *stats, *residual, *gamma;
  std::byte* workspace;
};

struct LossArgs {
  double* loss;
  void *dx, *dwte;
  const void *x, *wte, *targets;
  std::byte* workspace;
};

/// What an op needs is prepared when its cost is first asked for, so that a model holds nothing for
/// modes it is not used in; enqueueing allocates nothing. Statistics of a norm are means, then
/// reciprocal deviations, `rows` each. One thread at a time.
class Gpt2Kernels {
 public:
  Gpt2Kernels(const Gpt2Config&, const ModelOptions&);
  ~Gpt2Kernels();

  OpInfo embedding_info() const;
  void embedding(Stream&, void* x, const void* tokens, const void* wte, const void* wpe) const;
  OpInfo positions_backward_info() const;
  void positions_backward(Stream&, void* dwpe, const void* dx) const;
  OpInfo lookup_backward_info() const;
  void lookup_backward(Stream&, const ScatteredTensor& acc, DType acc_type, const void* tokens,
                       const void* dx, std::byte* workspace) const;

  OpInfo norm_info(const char* name) const;
  void norm(Stream&, void* y, void* stats, const void* x, const void* gamma,
            const void* beta) const;
  /// The norm of row `row` of x alone.
  OpInfo norm_row_info(const char* name) const;
  void norm_row(Stream&, void* y, const void* x, uint32_t row, const void* gamma, const void* beta,
                std::byte* workspace) const;
  OpInfo norm_backward_info(const char* name) const;
  void norm_backward(Stream&, const NormBackwardArgs&) const;

  OpInfo linear_info(LinearKind, const char* name) const;
  void linear(Stream&, LinearKind, const LinearArgs&) const;
  OpInfo linear_backward_info(LinearKind, const char* name) const;
  void linear_backward(Stream&, LinearKind, const LinearBackwardArgs&) const;

  OpInfo attention_info() const;
  void attention(Stream&, void* out, void* lse, const void* qkv, std::byte* workspace) const;
  OpInfo attention_backward_info() const;
  void attention_backward(Stream&, void* dqkv, const void* qkv, const void* out, const void* lse,
                          const void* dout, std::byte* workspace) const;

  OpInfo loss_info() const;
  void loss(Stream&, const LossArgs&) const;
  OpInfo evaluate_info() const;
  void evaluate(Stream&, double* loss, const void* x, const void* wte, const void* targets,
                std::byte* workspace) const;
  /// fp32 logits of one row.
  OpInfo logits_info() const;
  void logits(Stream&, void* logits, const void* x, const void* wte, std::byte* workspace) const;

 private:
  struct Prepared;

  Gpt2Config config_;
  ModelOptions options_;
  uint64_t rows_;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace strata
