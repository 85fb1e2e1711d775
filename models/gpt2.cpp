#include "models/gpt2.hpp"

#include <cmath>

#include "runtime/errors.hpp"
#include "runtime/random.hpp"

namespace strata {

Gpt2::Gpt2(const Gpt2Config& config, const ModelOptions& options)
    : config_(config), options_(options), rows_(options.shape.rows()), kernels_(config, options) {
  if (options.shape.seq > config.positions) {
    throw ConfigError("sequence length " + std::to_string(options.shape.seq) + " exceeds the " +
                      std::to_string(config.positions) + " positions of " + config.spec() +
                      "; lower --seq or use a model with more positions");
  }
  const uint32_t d = config.width;
  const uint64_t e = size_of(options.dtype), n = rows_;
  wte_ = add_param("wte.weight", {config.vocabulary, d}, true);
  wpe_ = add_param("wpe.weight", {config.positions, d}, true);
  tokens_ = add_value("tokens", n * sizeof(int32_t));
  targets_ = add_value("targets", n * sizeof(int32_t));
  x0_ = add_value("x0", n * d * e);
  dx0_ = add_value("dx0", n * d * e);
  for (uint32_t l = 0; l < config.layers; ++l) {
    const std::string h = "h." + std::to_string(l);
    Layer layer{};
    layer.ln_1 = add_norm(h + ".ln_1");
    layer.attn = add_linear(h + ".attn.c_attn", d, 3 * d);
    layer.attn_proj = add_linear(h + ".attn.c_proj", d, d);
    layer.ln_2 = add_norm(h + ".ln_2");
    layer.fc = add_linear(h + ".mlp.c_fc", d, 4 * d);
    layer.fc_proj = add_linear(h + ".mlp.c_proj", 4 * d, d);
    add_layer_values(layer, h);
    layers_.push_back(layer);
  }
  ln_f_ = add_norm("ln_f");
  lnf_ = add_value("ln_f", n * d * e);
  lnf_stats_ = add_value("ln_f.stats", 2 * n * sizeof(float));
  dlnf_ = add_value("dln_f", n * d * e);
  last_ = add_value("last", d * e);
  logits_ = add_value("logits", config.vocabulary * sizeof(float));
}

ParamId Gpt2::add_param(std::string name, std::vector<int64_t> shape, bool decay) {
  params_.push_back({std::move(name), std::move(shape), options_.dtype, 0, true, decay, {}});
  return static_cast<ParamId>(params_.size() - 1);
}

Gpt2::Norm Gpt2::add_norm(const std::string& name) {
  const ParamId gamma = add_param(name + ".weight", {config_.width}, false);
  return {gamma, add_param(name + ".bias", {config_.width}, false)};
}

Gpt2::Linear Gpt2::add_linear(const std::string& name, uint32_t in, uint32_t out) {
  const ParamId weight = add_param(name + ".weight", {in, out}, true);
  return {weight, add_param(name + ".bias", {out}, false)};
}

ValueId Gpt2::add_value(std::string name, uint64_t bytes) {
  values_.push_back({std::move(name), bytes});
  return static_cast<ValueId>(values_.size() - 1);
}

void Gpt2::add_layer_values(Layer& l, const std::string& h) {
  const uint64_t row = config_.width * size_of(options_.dtype);
  const uint64_t stats = 2 * sizeof(float);
  const auto add = [&](const char* name, uint64_t bytes_a_row) {
    return add_value(h + "." + name, rows_ * bytes_a_row);
  };
  l.ln1 = add("ln_1", row);
  l.ln1_stats = add("ln_1.stats", stats);
  l.qkv = add("qkv", 3 * row);
  l.att = add("att", row);
  l.lse = add("lse", config_.heads * sizeof(float));
  l.mid = add("mid", row);
  l.ln2 = add("ln_2", row);
  l.ln2_stats = add("ln_2.stats", stats);
  l.fc_pre = add("fc.pre", 4 * row);
  l.fc_act = add("fc.act", 4 * row);
  l.out = add("out", row);
  l.dout = add("dout", row);
  l.dfc = add("dfc", 4 * row);
  l.dln2 = add("dln_2", row);
  l.dmid = add("dmid", row);
  l.datt = add("datt", row);
  l.dqkv = add("dqkv", 3 * row);
  l.dln1 = add("dln_1", row);
}

void Gpt2::initialize(ParamId p, uint64_t seed, uint64_t begin, uint64_t n, float* out) const {
  const ParamSpec& spec = params_[p];
  if (spec.shape.size() == 1) {
    const bool gamma = spec.name.ends_with(".weight");
    std::fill(out, out + n, gamma ? 1.0f : 0.0f);
    return;
  }
  const bool residual = spec.name.ends_with("c_proj.weight");
  const auto deviation =
      static_cast<float>(residual ? 0.02 / std::sqrt(2.0 * config_.layers) : 0.02);
  const uint64_t stream = random_stream(RandomUse::init, p);
  for (uint64_t i = 0; i < n; ++i) out[i] = deviation * random_normal(seed, stream, begin + i);
}

void Gpt2::run(OpSink& sink, CallKind kind, uint32_t block, Mode mode) {
  const bool embed = block == 0, head = block == config_.layers + 1;
  switch (kind) {
    case CallKind::forward:
    case CallKind::reforward:
      if (embed) return embed_forward(sink, mode);
      return head ? head_forward(sink, mode) : layer_forward(sink, block - 1);
    case CallKind::backward:
      if (embed) return embed_backward(sink);
      return head ? head_backward(sink) : layer_backward(sink, block - 1);
    case CallKind::tail:
      if (embed) embed_tail(sink);
      return;
  }
}

void Gpt2::embed_forward(OpSink& sink, Mode mode) {
  const uint64_t bytes = rows_ * sizeof(int32_t);
  if (mode == Mode::generate) {
    sink.op({"load", 0, 2 * bytes}, {}, {}, {tokens_},
            [&](OpScope& s) { s.stream().copy(s.value(tokens_), batch_.tokens, bytes); });
  } else {
    sink.op({"load", 0, 4 * bytes}, {}, {}, {tokens_, targets_}, [&](OpScope& s) {
      const uint64_t first = s.micro_batch() * rows_;
      s.stream().copy(s.value(tokens_), batch_.tokens + first, bytes);
      s.stream().copy(s.value(targets_), batch_.targets + first, bytes);
    });
  }
  sink.op(kernels_.embedding_info(), {reads(wte_), reads(wpe_)}, {tokens_}, {x0_}, [&](OpScope& s) {
    kernels_.embedding(s.stream(), s.value(x0_), s.value(tokens_), s.weight(wte_), s.weight(wpe_));
  });
}

void Gpt2::embed_backward(OpSink& sink) {
  sink.op(kernels_.positions_backward_info(), {grad_of(wpe_)}, {dx0_}, {}, [&](OpScope& s) {
    kernels_.positions_backward(s.stream(), s.gradient(wpe_), s.value(dx0_));
  });
}

void Gpt2::embed_tail(OpSink& sink) {
  sink.op(kernels_.lookup_backward_info(), {adds_to_grad_of(wte_)}, {tokens_, dx0_}, {},
          [&](OpScope& s) {
            kernels_.lookup_backward(s.stream(), s.accumulator(wte_), s.accumulator_type(wte_),
                                     s.value(tokens_), s.value(dx0_), s.workspace());
          });
}

void Gpt2::norm_forward(OpSink& sink, const char* name, const Norm& norm, ValueId x, ValueId y,
                        ValueId stats) {
  sink.op(kernels_.norm_info(name), {reads(norm.gamma), reads(norm.beta)}, {x}, {y, stats},
          [&](OpScope& s) {
            kernels_.norm(s.stream(), s.value(y), s.value(stats), s.value(x), s.weight(norm.gamma),
                          s.weight(norm.beta));
          });
}

void Gpt2::norm_backward(OpSink& sink, const char* name, const Norm& norm, ValueId dy, ValueId x,
                         ValueId stats, ValueId residual, bool has_residual, ValueId dx) {
  const auto body = [&](OpScope& s) {
    kernels_.norm_backward(s.stream(),
                           {s.value(dx), s.gradient(norm.gamma), s.gradient(norm.beta), s.value(dy),
                            s.value(x), s.value(stats), has_residual ? s.value(residual) : nullptr,
                            s.weight(norm.gamma), s.workspace()});
  };
  const OpInfo info = kernels_.norm_backward_info(name);
  const std::initializer_list<TensorUse> uses = {reads(norm.gamma), grad_of(norm.gamma),
                                                 grad_of(norm.beta)};
  if (has_residual) {
    sink.op(info, uses, {dy, x, stats, residual}, {dx}, body);
  } else {
    sink.op(info, uses, {dy, x, stats}, {dx}, body);
  }
}

void Gpt2::layer_forward(OpSink& sink, uint32_t layer) {
  const Layer& l = layers_[layer];
  const ValueId x = layer_input(layer);
  norm_forward(sink, "ln_1", l.ln_1, x, l.ln1, l.ln1_stats);
  sink.op(kernels_.linear_info(LinearKind::attn, "c_attn"),
          {reads(l.attn.weight), reads(l.attn.bias)}, {l.ln1}, {l.qkv}, [&](OpScope& s) {
            kernels_.linear(s.stream(), LinearKind::attn,
                            {s.value(l.qkv), s.value(l.ln1), s.weight(l.attn.weight),
                             s.weight(l.attn.bias), nullptr, nullptr, s.workspace()});
          });
  sink.op(kernels_.attention_info(), {}, {l.qkv}, {l.att, l.lse}, [&](OpScope& s) {
    kernels_.attention(s.stream(), s.value(l.att), s.value(l.lse), s.value(l.qkv), s.workspace());
  });
  sink.op(kernels_.linear_info(LinearKind::attn_proj, "attn.c_proj"),
          {reads(l.attn_proj.weight), reads(l.attn_proj.bias)}, {l.att, x}, {l.mid},
          [&](OpScope& s) {
            kernels_.linear(s.stream(), LinearKind::attn_proj,
                            {s.value(l.mid), s.value(l.att), s.weight(l.attn_proj.weight),
                             s.weight(l.attn_proj.bias), s.value(x), nullptr, s.workspace()});
          });
  norm_forward(sink, "ln_2", l.ln_2, l.mid, l.ln2, l.ln2_stats);
  sink.op(kernels_.linear_info(LinearKind::fc, "c_fc"), {reads(l.fc.weight), reads(l.fc.bias)},
          {l.ln2}, {l.fc_pre, l.fc_act}, [&](OpScope& s) {
            kernels_.linear(s.stream(), LinearKind::fc,
                            {s.value(l.fc_pre), s.value(l.ln2), s.weight(l.fc.weight),
                             s.weight(l.fc.bias), nullptr, s.value(l.fc_act), s.workspace()});
          });
  sink.op(kernels_.linear_info(LinearKind::fc_proj, "mlp.c_proj"),
          {reads(l.fc_proj.weight), reads(l.fc_proj.bias)}, {l.fc_act, l.mid}, {l.out},
          [&](OpScope& s) {
            kernels_.linear(s.stream(), LinearKind::fc_proj,
                            {s.value(l.out), s.value(l.fc_act), s.weight(l.fc_proj.weight),
                             s.weight(l.fc_proj.bias), s.value(l.mid), nullptr, s.workspace()});
          });
}

void Gpt2::layer_backward(OpSink& sink, uint32_t layer) {
  const Layer& l = layers_[layer];
  // One linear layer's gradients: of its weight, its bias and its input; `pre` not null: the input
  // gradient goes on through the GELU.
  const auto backward = [&](OpScope& s, LinearKind kind, const Linear& linear, ValueId dx,
                            ValueId dy, ValueId x, const void* pre) {
    kernels_.linear_backward(
        s.stream(), kind,
        {s.value(dx), s.gradient(linear.weight), s.gradient(linear.bias), s.value(dy), s.value(x),
         s.weight(linear.weight), pre, s.workspace()});
  };
  sink.op(kernels_.linear_backward_info(LinearKind::fc_proj, "mlp.c_proj backward"),
          {reads(l.fc_proj.weight), grad_of(l.fc_proj.weight), grad_of(l.fc_proj.bias)},
          {l.dout, l.fc_act, l.fc_pre}, {l.dfc}, [&](OpScope& s) {
            backward(s, LinearKind::fc_proj, l.fc_proj, l.dfc, l.dout, l.fc_act, s.value(l.fc_pre));
          });
  sink.op(kernels_.linear_backward_info(LinearKind::fc, "c_fc backward"),
          {reads(l.fc.weight), grad_of(l.fc.weight), grad_of(l.fc.bias)}, {l.dfc, l.ln2}, {l.dln2},
          [&](OpScope& s) { backward(s, LinearKind::fc, l.fc, l.dln2, l.dfc, l.ln2, nullptr); });
  norm_backward(sink, "ln_2 backward", l.ln_2, l.dln2, l.mid, l.ln2_stats, l.dout, true, l.dmid);
  sink.op(kernels_.linear_backward_info(LinearKind::attn_proj, "attn.c_proj backward"),
          {reads(l.attn_proj.weight), grad_of(l.attn_proj.weight), grad_of(l.attn_proj.bias)},
          {l.dmid, l.att}, {l.datt}, [&](OpScope& s) {
            backward(s, LinearKind::attn_proj, l.attn_proj, l.datt, l.dmid, l.att, nullptr);
          });
  sink.op(kernels_.attention_backward_info(), {}, {l.qkv, l.att, l.lse, l.datt}, {l.dqkv},
          [&](OpScope& s) {
            kernels_.attention_backward(s.stream(), s.value(l.dqkv), s.value(l.qkv), s.value(l.att),
                                        s.value(l.lse), s.value(l.datt), s.workspace());
          });
  sink.op(kernels_.linear_backward_info(LinearKind::attn, "c_attn backward"),
          {reads(l.attn.weight), grad_of(l.attn.weight), grad_of(l.attn.bias)}, {l.dqkv, l.ln1},
          {l.dln1}, [&](OpScope& s) {
            backward(s, LinearKind::attn, l.attn, l.dln1, l.dqkv, l.ln1, nullptr);
          });
  norm_backward(sink, "ln_1 backward", l.ln_1, l.dln1, layer_input(layer), l.ln1_stats, l.dmid,
                true, layer_dinput(layer));
}

void Gpt2::head_forward(OpSink& sink, Mode mode) {
  if (mode == Mode::generate) return head_logits(sink);
  norm_forward(sink, "ln_f", ln_f_, layer_input(config_.layers), lnf_, lnf_stats_);
  if (mode == Mode::train) return;  // the loss comes with its gradient, in backward
  sink.op(kernels_.evaluate_info(), {reads(wte_)}, {lnf_, targets_}, {}, [&](OpScope& s) {
    kernels_.evaluate(s.stream(), s.loss(), s.value(lnf_), s.weight(wte_), s.value(targets_),
                      s.workspace());
  });
}

/// One row: its norm and product do not depend on the length of the sequence. What came before does
/// as far as kernels cut it: in fp32 blocks of attention and tiles of products are 64 rows, so that
/// lengths that are multiples of 64 give the same bits; in bf16 a block of attention is 128.
void Gpt2::head_logits(OpSink& sink) {
  const ValueId x = layer_input(config_.layers);
  sink.op(kernels_.norm_row_info("ln_f"), {reads(ln_f_.gamma), reads(ln_f_.beta)}, {x}, {last_},
          [&](OpScope& s) {
            kernels_.norm_row(s.stream(), s.value(last_), s.value(x), batch_.position,
                              s.weight(ln_f_.gamma), s.weight(ln_f_.beta), s.workspace());
          });
  sink.op(kernels_.logits_info(), {reads(wte_)}, {last_}, {logits_}, [&](OpScope& s) {
    kernels_.logits(s.stream(), s.value(logits_), s.value(last_), s.weight(wte_), s.workspace());
  });
  const uint64_t bytes = config_.vocabulary * sizeof(float);
  sink.op({"store", 0, 2 * bytes}, {}, {logits_}, {},
          [&](OpScope& s) { s.stream().copy(batch_.logits, s.value(logits_), bytes); });
}

void Gpt2::head_backward(OpSink& sink) {
  sink.op(kernels_.loss_info(), {reads(wte_), grad_of(wte_)}, {lnf_, targets_}, {dlnf_},
          [&](OpScope& s) {
            kernels_.loss(s.stream(), {s.loss(), s.value(dlnf_), s.gradient(wte_), s.value(lnf_),
                                       s.weight(wte_), s.value(targets_), s.workspace()});
          });
  norm_backward(sink, "ln_f backward", ln_f_, dlnf_, layer_input(config_.layers), lnf_stats_, 0,
                false, layer_dinput(config_.layers));
}

}  // namespace strata
