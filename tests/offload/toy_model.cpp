#include "tests/offload/toy_model.hpp"

#include <cmath>
#include <cstring>

#include "runtime/thread_pool.hpp"

namespace strata::toy {
namespace {

float get(const void* p, DType t, uint64_t i) {
  return t == DType::f32 ? static_cast<const float*>(p)[i]
                         : to_float(static_cast<const Bf16*>(p)[i]);
}
void put(void* p, DType t, uint64_t i, float x) {
  if (t == DType::f32) {
    static_cast<float*>(p)[i] = x;
  } else {
    static_cast<Bf16*>(p)[i] = to_bf16(x);
  }
}

void load(HostContext&, int32_t* dst, const int32_t* src, uint32_t n) {
  std::memcpy(dst, src, n * sizeof(int32_t));
}

void lookup(HostContext& c, float* x, const void* emb, const int32_t* tokens, Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    for (uint32_t j = 0; j < s.width; ++j) {
      x[r * s.width + j] = get(emb, s.dtype, static_cast<uint64_t>(tokens[r]) * s.width + j);
    }
  });
}

void mix(HostContext& c, float* h, const float* x, const void* w, const void* b, Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    for (uint32_t j = 0; j < s.width; ++j) {
      float sum = get(b, s.dtype, j);
      for (uint32_t k = 0; k < s.width; ++k) {
        sum += x[r * s.width + k] * get(w, s.dtype, k * s.width + j);
      }
      h[r * s.width + j] = sum;
    }
  });
}

void act(HostContext& c, float* y, const float* x, const float* h, Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    for (uint32_t i = r * s.width; i < (r + 1) * s.width; ++i) y[i] = x[i] + std::tanh(h[i]);
  });
}

void loss_rows(HostContext& c, float* dscore, double* loss, const float* x, const void* emb,
               const void* frozen, const int32_t* targets, Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    float score = 0;
    const uint64_t row = static_cast<uint64_t>(targets[r]) * s.width;
    for (uint32_t j = 0; j < s.width; ++j) {
      score += x[r * s.width + j] * get(frozen, s.dtype, j) * get(emb, s.dtype, row + j);
    }
    dscore[r] = score - 1;
  });
  double sum = 0;
  for (uint32_t r = 0; r < s.rows; ++r) sum += 0.5 * dscore[r] * dscore[r];
  *loss = sum;
}

struct HeadBackward {
  float* dx;
  void* demb;
  const float *dscore, *x;
  const void *emb, *frozen;
  const int32_t* targets;
};

void head_backward(HostContext& c, HeadBackward a, Shape s) {
  c.pool.parallel_for(s.vocabulary, [&](uint32_t v) {
    for (uint32_t j = 0; j < s.width; ++j) {
      float sum = 0;
      for (uint32_t r = 0; r < s.rows; ++r) {
        if (a.targets[r] != static_cast<int32_t>(v)) continue;
        sum += a.dscore[r] * a.x[r * s.width + j] * get(a.frozen, s.dtype, j);
      }
      put(a.demb, s.dtype, static_cast<uint64_t>(v) * s.width + j, sum);
    }
  });
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    const uint64_t row = static_cast<uint64_t>(a.targets[r]) * s.width;
    for (uint32_t j = 0; j < s.width; ++j) {
      a.dx[r * s.width + j] =
          a.dscore[r] * get(a.frozen, s.dtype, j) * get(a.emb, s.dtype, row + j);
    }
  });
}

void act_backward(HostContext& c, float* dh, const float* dx, const float* h, Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    for (uint32_t i = r * s.width; i < (r + 1) * s.width; ++i) {
      const float t = std::tanh(h[i]);
      dh[i] = dx[i] * (1 - t * t);
    }
  });
}

void weight_grad(HostContext& c, void* dw, void* db, const float* x, const float* dh, Shape s) {
  c.pool.parallel_for(s.width, [&](uint32_t k) {
    for (uint32_t j = 0; j < s.width; ++j) {
      float sum = 0;
      for (uint32_t r = 0; r < s.rows; ++r) sum += x[r * s.width + k] * dh[r * s.width + j];
      put(dw, s.dtype, k * s.width + j, sum);
    }
    float bias = 0;
    for (uint32_t r = 0; r < s.rows; ++r) bias += dh[r * s.width + k];
    put(db, s.dtype, k, bias);
  });
}

void input_grad(HostContext& c, float* dx, const float* dy, const float* dh, const void* w,
                Shape s) {
  c.pool.parallel_for(s.rows, [&](uint32_t r) {
    for (uint32_t k = 0; k < s.width; ++k) {
      float sum = dy[r * s.width + k];
      for (uint32_t j = 0; j < s.width; ++j) {
        sum += dh[r * s.width + j] * get(w, s.dtype, k * s.width + j);
      }
      dx[r * s.width + k] = sum;
    }
  });
}

void lookup_grad(HostContext&, ScatteredTensor acc, DType type, const int32_t* tokens,
                 const float* dx, Shape s) {
  for (uint32_t r = 0; r < s.rows; ++r) {
    for (uint32_t j = 0; j < s.width; ++j) {
      const uint64_t e = static_cast<uint64_t>(tokens[r]) * s.width + j;
      for (uint32_t i = 0; i < acc.count; ++i) {
        const auto& p = acc.pieces[i];
        if (e < p.begin || e >= p.begin + p.elems) continue;
        put(p.data, type, e - p.begin, get(p.data, type, e - p.begin) + dx[r * s.width + j]);
      }
    }
  }
}

template <auto Fn, class... Args>
void go(OpScope& s, Args... args) {
  launch_native<Fn, HostContext>(s.stream(), Cost{1000, 1000}, args...);
}

}  // namespace

Model::Model(const Shape& shape) : shape_(shape) {
  const auto add = [&](std::string name, std::vector<int64_t> dims, bool trainable = true) {
    const bool decay = dims.size() > 1;
    params_.push_back({std::move(name), std::move(dims), shape.dtype, 0, trainable, decay, {}});
    return static_cast<ParamId>(params_.size() - 1);
  };
  const int64_t d = shape.width;
  emb_ = add("emb", {shape.vocabulary, d});
  ValueId next = 4;
  for (uint32_t l = 0; l < shape.layers; ++l) {
    const std::string n = "h." + std::to_string(l);
    const ParamId w = add(n + ".w", {d, d});
    const ParamId b = add(n + ".b", {d});
    layers_.push_back({w, b, next, next + 1, next + 2, next + 3});
    next += 4;
  }
  add("unused", {d, d});
  frozen_ = add("frozen", {d}, false);
  params_.push_back({"head", {shape.vocabulary, d}, shape.dtype, 0, true, true, emb_});
}

std::vector<ValueSpec> Model::values() const {
  const uint64_t n = shape_.rows * 4, act = n * shape_.width;
  std::vector<ValueSpec> v = {{"tokens", n}, {"targets", n}, {"x0", act}, {"dx0", act}};
  for (uint32_t l = 0; l < shape_.layers; ++l) {
    for (const char* name : {"h", "x", "dh", "dx"}) v.push_back({name, act});
  }
  return v;
}

float Model::initial(ParamId p, uint64_t e) const {
  const uint64_t h = (e * 0x9e3779b97f4a7c15u + p * 0xbf58476d1ce4e5b9u) >> 40;
  const float u = static_cast<float>(h) / (1 << 24) - 0.5f;
  return p == frozen_ ? 1.0f + 0.1f * u : 0.6f * u;
}

Trace Model::trace(bool training) {
  Tracer t(blocks(), values());
  for (uint32_t b = 0; b < blocks(); ++b) {
    if (b + 1 < blocks() || !training) {
      t.begin(CallKind::forward, b);
      forward(t, b, training);
    }
  }
  if (training) {
    for (uint32_t b = blocks(); b-- > 1;) {
      t.begin(CallKind::backward, b);
      backward(t, b);
    }
    t.begin(CallKind::tail, 0);
    tail(t);
  }
  return t.take();
}

void Model::run(OpSink& sink, const BlockCall& call, bool training) {
  if (call.kind == CallKind::tail) return tail(sink);
  if (call.kind == CallKind::backward) return backward(sink, call.block);
  forward(sink, call.block, training);
}

void Model::forward(OpSink& sink, uint32_t block, bool) {
  const Shape s = shape_;
  const uint32_t rows = s.rows;
  if (block == 0) {
    sink.op({"load"}, {}, {}, {tokens_, targets_}, [&](OpScope& o) {
      const size_t at = o.micro_batch() * rows;
      go<load>(o, static_cast<int32_t*>(o.value(tokens_)),
               static_cast<const int32_t*>(tokens[slot].data() + at), rows);
      go<load>(o, static_cast<int32_t*>(o.value(targets_)),
               static_cast<const int32_t*>(targets[slot].data() + at), rows);
    });
    sink.op({"lookup"}, {reads(emb_)}, {tokens_}, {x0_}, [&](OpScope& o) {
      go<lookup>(o, static_cast<float*>(o.value(x0_)), o.weight(emb_),
                 static_cast<const int32_t*>(o.value(tokens_)), s);
    });
    return;
  }
  if (block <= s.layers) {
    const Layer& l = layers_[block - 1];
    const ValueId x = block == 1 ? x0_ : layers_[block - 2].x;
    sink.op({"mix", 1000, 1000}, {reads(l.w), reads(l.b)}, {x}, {l.h}, [&](OpScope& o) {
      go<mix>(o, static_cast<float*>(o.value(l.h)), static_cast<const float*>(o.value(x)),
              o.weight(l.w), o.weight(l.b), s);
    });
    sink.op({"act", 1000, 1000}, {}, {x, l.h}, {l.x}, [&](OpScope& o) {
      go<act>(o, static_cast<float*>(o.value(l.x)), static_cast<const float*>(o.value(x)),
              static_cast<const float*>(o.value(l.h)), s);
    });
    return;
  }
  const ValueId x = layers_.back().x;
  sink.op({"eval_loss", 0, 0, rows * 4}, {reads(emb_), reads(frozen_)}, {x, targets_}, {},
          [&](OpScope& o) {
            go<loss_rows>(o, reinterpret_cast<float*>(o.workspace()), o.loss(),
                          static_cast<const float*>(o.value(x)), o.weight(emb_), o.weight(frozen_),
                          static_cast<const int32_t*>(o.value(targets_)), s);
          });
}

void Model::backward(OpSink& sink, uint32_t block) {
  const Shape s = shape_;
  if (block == s.layers + 1) {
    const ValueId x = layers_.back().x, dx = layers_.back().dx;
    sink.op({"loss", 1000, 1000, s.rows * 4}, {reads(emb_), reads(frozen_), grad_of(emb_)},
            {x, targets_}, {dx}, [&](OpScope& o) {
              auto* dscore = reinterpret_cast<float*>(o.workspace());
              const auto* t = static_cast<const int32_t*>(o.value(targets_));
              go<loss_rows>(o, dscore, o.loss(), static_cast<const float*>(o.value(x)),
                            o.weight(emb_), o.weight(frozen_), t, s);
              go<head_backward>(o,
                                HeadBackward{static_cast<float*>(o.value(dx)), o.gradient(emb_),
                                             dscore, static_cast<const float*>(o.value(x)),
                                             o.weight(emb_), o.weight(frozen_), t},
                                s);
            });
    return;
  }
  const Layer& l = layers_[block - 1];
  const ValueId x = block == 1 ? x0_ : layers_[block - 2].x;
  const ValueId dx = block == 1 ? dx0_ : layers_[block - 2].dx;
  sink.op({"act_backward"}, {}, {l.dx, l.h}, {l.dh}, [&](OpScope& o) {
    go<act_backward>(o, static_cast<float*>(o.value(l.dh)),
                     static_cast<const float*>(o.value(l.dx)),
                     static_cast<const float*>(o.value(l.h)), s);
  });
  sink.op({"w_grad"}, {grad_of(l.w), grad_of(l.b)}, {x, l.dh}, {}, [&](OpScope& o) {
    go<weight_grad>(o, o.gradient(l.w), o.gradient(l.b), static_cast<const float*>(o.value(x)),
                    static_cast<const float*>(o.value(l.dh)), s);
  });
  // Reads the weights after their gradient is final: an update must not come in between.
  sink.op({"x_grad"}, {reads(l.w)}, {l.dx, l.dh}, {dx}, [&](OpScope& o) {
    go<input_grad>(o, static_cast<float*>(o.value(dx)), static_cast<const float*>(o.value(l.dx)),
                   static_cast<const float*>(o.value(l.dh)), o.weight(l.w), s);
  });
}

void Model::tail(OpSink& sink) {
  const Shape s = shape_;
  sink.op({"lookup_grad"}, {adds_to_grad_of(emb_)}, {tokens_, dx0_}, {}, [&](OpScope& o) {
    go<lookup_grad>(o, o.accumulator(emb_), o.accumulator_type(emb_),
                    static_cast<const int32_t*>(o.value(tokens_)),
                    static_cast<const float*>(o.value(dx0_)), s);
  });
}

}  // namespace strata::toy
