#include "models/gpt2_kernels.hpp"

#include <algorithm>

#include "models/host/activation.hpp"
#include "models/host/attention.hpp"
#include "models/host/bias.hpp"
#include "models/host/embedding.hpp"
#include "models/host/gemm.hpp"
#include "models/host/layernorm.hpp"
#include "models/host/lm_head.hpp"

namespace strata {
namespace {

float* f32(void* p) { return static_cast<float*>(p); }
const float* f32(const void* p) { return static_cast<const float*>(p); }

using host::Epilogue;
using host::Gemm;

Epilogue forward_epilogue(LinearKind kind) {
  if (kind == LinearKind::attn) return Epilogue::bias;
  return kind == LinearKind::fc ? Epilogue::bias_gelu : Epilogue::bias_residual;
}

/// The backward products of one linear layer.
struct LinearGradients {
  int64_t rows, out;
  Gemm dx, dweight;
  uint64_t scratch;

  LinearGradients(LinearKind kind, int64_t n, int64_t i, int64_t o, DType t, uint32_t threads)
      : rows(n),
        out(o),
        dx({.m = n,
            .n = i,
            .k = o,
            .transpose_b = true,
            .in = t,
            .out = t,
            .epilogue = kind == LinearKind::fc_proj ? Epilogue::gelu_backward : Epilogue::none}),
        dweight({.m = i, .n = o, .k = n, .transpose_a = true, .in = t, .out = t}),
        scratch(std::max<uint64_t>(
            {dx.scratch_bytes(threads), dweight.scratch_bytes(threads),
             host::bias_gradient_scratch(static_cast<size_t>(n), static_cast<size_t>(o))})) {}
};

void run_linear(HostContext& h, const Gemm* forward, LinearArgs a, uint64_t scratch) {
  forward->run(h.pool,
               {.a = a.x,
                .b = a.weight,
                .c = a.y,
                .bias = a.bias,
                .residual = a.residual,
                .activation = a.activated},
               {a.workspace, scratch});
}

void run_linear_backward(HostContext& h, const LinearGradients* g, LinearBackwardArgs a, DType t) {
  host::bias_gradient(h.pool, t, a.dbias, a.dy, static_cast<size_t>(g->rows),
                      static_cast<size_t>(g->out), a.workspace);
  const std::span scratch(a.workspace, g->scratch);
  g->dweight.run(h.pool, {.a = a.x, .b = a.dy, .c = a.dweight}, scratch);
  g->dx.run(h.pool, {.a = a.dy, .b = a.weight, .c = a.dx, .saved = a.pre}, scratch);
}

void run_loss(HostContext& h, const host::LmHead* head, host::LmHeadArgs a) {
  head->run(h.pool, a);
}

void run_evaluate(HostContext& h, const host::LmHead* head, host::LmHeadArgs a) {
  head->evaluate(h.pool, a);
}

void run_logits(HostContext& h, const Gemm* product, host::GemmArgs a, std::byte* workspace,
                uint64_t scratch) {
  product->run(h.pool, a, {workspace, scratch});
}

}  // namespace

struct Gpt2Kernels::Prepared {
  int64_t rows, width, vocabulary;
  DType dtype;
  uint32_t threads;
  const host::Attention* attention;

  const Gemm& forward(LinearKind kind) {
    const LinearSize size = size_of_linear(kind);
    return made(forward_[static_cast<size_t>(kind)], [&] {
      return Gemm({.m = rows,
                   .n = size.out,
                   .k = size.in,
                   .in = dtype,
                   .out = dtype,
                   .epilogue = forward_epilogue(kind)});
    });
  }
  const LinearGradients& gradients(LinearKind kind) {
    const LinearSize size = size_of_linear(kind);
    return made(gradients_[static_cast<size_t>(kind)],
                [&] { return LinearGradients(kind, rows, size.in, size.out, dtype, threads); });
  }
  const host::LmHead& head() {
    return made(head_, [&] { return host::LmHead(rows, width, vocabulary, dtype, threads); });
  }
  const Gemm& logits() {
    return made(logits_, [&] {
      return Gemm({.m = 1, .n = vocabulary, .k = width, .transpose_b = true, .in = dtype});
    });
  }

  /// Columns of a linear layer's input and output.
  struct LinearSize {
    int64_t in, out;
  };
  LinearSize size_of_linear(LinearKind kind) const {
    switch (kind) {
      case LinearKind::attn: return {width, 3 * width};
      case LinearKind::attn_proj: return {width, width};
      case LinearKind::fc: return {width, 4 * width};
      case LinearKind::fc_proj: break;
    }
    return {4 * width, width};
  }

 private:
  template <class T, class Make>
  static const T& made(std::unique_ptr<T>& kept, Make make) {
    if (!kept) kept = std::make_unique<T>(make());
    return *kept;
  }

  std::array<std::unique_ptr<Gemm>, 4> forward_;
  std::array<std::unique_ptr<LinearGradients>, 4> gradients_;
  std::unique_ptr<host::LmHead> head_;
  std::unique_ptr<Gemm> logits_;
};

Gpt2Kernels::Gpt2Kernels(const Gpt2Config& c, const ModelOptions& o)
    : config_(c), options_(o), rows_(o.shape.rows()), prepared_(std::make_unique<Prepared>()) {
  Prepared& p = *prepared_;
  p.rows = static_cast<int64_t>(rows_);
  p.width = c.width;
  p.vocabulary = c.vocabulary;
  p.dtype = o.dtype;
  p.threads = o.threads;
  p.attention = &host::attention({o.dtype, o.shape.batch, o.shape.seq, c.width, c.heads});
}

Gpt2Kernels::~Gpt2Kernels() = default;

OpInfo Gpt2Kernels::embedding_info() const {
  return {"embedding", 0, 3 * rows_ * config_.width * size_of(options_.dtype), 0};
}
void Gpt2Kernels::embedding(Stream& s, void* x, const void* tokens, const void* wte,
                            const void* wpe) const {
  launch_native<[](HostContext& h, host::EmbeddingForward a) {
    host::embedding_forward(h.pool, a);
  },
                HostContext>(
      s, {},
      host::EmbeddingForward{options_.dtype, x, static_cast<const int32_t*>(tokens), wte, wpe,
                             options_.shape.batch, options_.shape.seq, config_.width,
                             config_.vocabulary});
}

OpInfo Gpt2Kernels::positions_backward_info() const {
  return {"wpe backward", 0, 2 * rows_ * config_.width * size_of(options_.dtype), 0};
}
void Gpt2Kernels::positions_backward(Stream& s, void* dwpe, const void* dx) const {
  launch_native<[](HostContext& h, host::PositionGradient a) {
    host::position_gradient(h.pool, a);
  },
                HostContext>(
      s, {},
      host::PositionGradient{options_.dtype, dwpe, dx, options_.shape.batch, options_.shape.seq,
                             config_.positions, config_.width});
}

OpInfo Gpt2Kernels::lookup_backward_info() const {
  return {"wte lookup backward", 0, 3 * rows_ * config_.width * size_of(options_.dtype),
          host::lookup_gradient_scratch(rows_, config_.vocabulary)};
}
void Gpt2Kernels::lookup_backward(Stream& s, const ScatteredTensor& acc, DType acc_type,
                                  const void* tokens, const void* dx, std::byte* workspace) const {
  host::LookupGradient a;
  a.dtype = options_.dtype;
  a.accumulator_dtype = acc_type;
  a.accumulator = acc;
  a.dx = dx;
  a.tokens = static_cast<const int32_t*>(tokens);
  a.scratch = workspace;
  a.count = rows_;
  a.vocabulary = config_.vocabulary;
  a.width = config_.width;
  launch_native<[](HostContext& h, host::LookupGradient g) { host::lookup_gradient(h.pool, g); },
                HostContext>(s, {}, a);
}

OpInfo Gpt2Kernels::norm_info(const char* name) const {
  return {name, 0, 2 * rows_ * config_.width * size_of(options_.dtype), 0};
}
void Gpt2Kernels::norm(Stream& s, void* y, void* stats, const void* x, const void* gamma,
                       const void* beta) const {
  launch_native<[](HostContext& h, host::LayernormForward a) {
    host::layernorm_forward(h.pool, a);
  },
                HostContext>(
      s, {},
      host::LayernormForward{options_.dtype, y, f32(stats), f32(stats) + rows_, x, gamma, beta,
                             rows_, config_.width, 1e-5f});
}
OpInfo Gpt2Kernels::norm_row_info(const char* name) const {
  return {name, 0, 2 * config_.width * size_of(options_.dtype), 2 * sizeof(float)};
}
void Gpt2Kernels::norm_row(Stream& s, void* y, const void* x, uint32_t row, const void* gamma,
                           const void* beta, std::byte* workspace) const {
  auto* stats = reinterpret_cast<float*>(workspace);
  const auto* from =
      static_cast<const std::byte*>(x) + uint64_t{row} * config_.width * size_of(options_.dtype);
  launch_native<[](HostContext& h, host::LayernormForward a) {
    host::layernorm_forward(h.pool, a);
  },
                HostContext>(s, {},
                             host::LayernormForward{options_.dtype, y, stats, stats + 1, from,
                                                    gamma, beta, 1, config_.width, 1e-5f});
}
OpInfo Gpt2Kernels::norm_backward_info(const char* name) const {
  return {name, 0, 4 * rows_ * config_.width * size_of(options_.dtype),
          host::layernorm_backward_scratch(rows_, config_.width)};
}
void Gpt2Kernels::norm_backward(Stream& s, const NormBackwardArgs& a) const {
  launch_native<[](HostContext& h, host::LayernormBackward b) {
    host::layernorm_backward(h.pool, b);
  },
                HostContext>(
      s, {},
      host::LayernormBackward{options_.dtype, a.dx, a.dgamma, a.dbeta, a.dy, a.x, a.gamma,
                              f32(a.stats), f32(a.stats) + rows_, a.residual, a.workspace, rows_,
                              config_.width});
}

OpInfo Gpt2Kernels::linear_info(LinearKind kind, const char* name) const {
  const auto size = prepared_->size_of_linear(kind);
  const auto in = static_cast<uint64_t>(size.in), out = static_cast<uint64_t>(size.out);
  return {name, 2 * rows_ * in * out, (rows_ * (in + out) + in * out) * size_of(options_.dtype),
          prepared_->forward(kind).scratch_bytes(options_.threads)};
}
void Gpt2Kernels::linear(Stream& s, LinearKind kind, const LinearArgs& a) const {
  const Gemm* g = &prepared_->forward(kind);
  launch_native<run_linear, HostContext>(s, {}, g, a, uint64_t{g->scratch_bytes(options_.threads)});
}
OpInfo Gpt2Kernels::linear_backward_info(LinearKind kind, const char* name) const {
  const auto size = prepared_->size_of_linear(kind);
  const auto in = static_cast<uint64_t>(size.in), out = static_cast<uint64_t>(size.out);
  return {name, 4 * rows_ * in * out, 2 * (rows_ * (in + out) + in * out) * size_of(options_.dtype),
          prepared_->gradients(kind).scratch};
}
void Gpt2Kernels::linear_backward(Stream& s, LinearKind kind, const LinearBackwardArgs& a) const {
  const LinearGradients* g = &prepared_->gradients(kind);
  launch_native<run_linear_backward, HostContext>(s, {}, g, a, options_.dtype);
}

OpInfo Gpt2Kernels::attention_info() const {
  const uint64_t t = options_.shape.seq;
  return {"attention", 2 * rows_ * t * config_.width,
          4 * rows_ * config_.width * size_of(options_.dtype),
          prepared_->attention->forward_scratch(options_.threads)};
}
void Gpt2Kernels::attention(Stream& s, void* out, void* lse, const void* qkv,
                            std::byte* workspace) const {
  launch_native<[](HostContext& h, const host::Attention* attention, host::AttentionForward a) {
    attention->forward(h.pool, a);
  },
                HostContext>(s, {}, prepared_->attention,
                             host::AttentionForward{out, f32(lse), qkv, workspace});
}
OpInfo Gpt2Kernels::attention_backward_info() const {
  const uint64_t t = options_.shape.seq;
  return {"attention backward", 5 * rows_ * t * config_.width,
          8 * rows_ * config_.width * size_of(options_.dtype),
          prepared_->attention->backward_scratch(options_.threads)};
}
void Gpt2Kernels::attention_backward(Stream& s, void* dqkv, const void* qkv, const void* out,
                                     const void* lse, const void* dout,
                                     std::byte* workspace) const {
  launch_native<[](HostContext& h, const host::Attention* attention, host::AttentionBackward a) {
    attention->backward(h.pool, a);
  },
                HostContext>(s, {}, prepared_->attention,
                             host::AttentionBackward{dqkv, qkv, out, f32(lse), dout, workspace});
}

OpInfo Gpt2Kernels::loss_info() const {
  const uint64_t table = uint64_t{config_.vocabulary} * config_.width;
  return {"loss", 6 * rows_ * table, 3 * table * size_of(options_.dtype),
          prepared_->head().scratch_bytes()};
}
void Gpt2Kernels::loss(Stream& s, const LossArgs& a) const {
  const double tokens = static_cast<double>(rows_) * options_.shape.micro_batches;
  const host::LmHead* head = &prepared_->head();
  launch_native<run_loss, HostContext>(
      s, {}, head,
      host::LmHeadArgs{a.x, a.wte, static_cast<const int32_t*>(a.targets),
                       static_cast<float>(1.0 / tokens), a.dx, a.dwte, a.loss, a.workspace});
}
OpInfo Gpt2Kernels::evaluate_info() const {
  const uint64_t table = uint64_t{config_.vocabulary} * config_.width;
  return {"evaluate", 2 * rows_ * table, table * size_of(options_.dtype),
          prepared_->head().evaluate_scratch_bytes()};
}
void Gpt2Kernels::evaluate(Stream& s, double* loss, const void* x, const void* wte,
                           const void* targets, std::byte* workspace) const {
  const host::LmHead* head = &prepared_->head();
  launch_native<run_evaluate, HostContext>(
      s, {}, head,
      host::LmHeadArgs{x, wte, static_cast<const int32_t*>(targets), 1.0f, nullptr, nullptr, loss,
                       workspace});
}
OpInfo Gpt2Kernels::logits_info() const {
  const uint64_t table = uint64_t{config_.vocabulary} * config_.width;
  return {"logits", 2 * table, table * size_of(options_.dtype),
          prepared_->logits().scratch_bytes(options_.threads)};
}
void Gpt2Kernels::logits(Stream& s, void* logits, const void* x, const void* wte,
                         std::byte* workspace) const {
  const Gemm* product = &prepared_->logits();
  launch_native<run_logits, HostContext>(s, {}, product,
                                         host::GemmArgs{.a = x, .b = wte, .c = logits}, workspace,
                                         uint64_t{product->scratch_bytes(options_.threads)});
}

}  // namespace strata
