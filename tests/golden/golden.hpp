// Reads golden.json and reproduces the weights and tokens that make_golden.py used.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::golden {

// ---- formulas: the same as in make_golden.py
// -----------------------------------------------------

/// FNV-1a, 64 bits.
inline uint64_t name_key(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3u;
  return h;
}

/// The finalizer of splitmix64.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

inline uint64_t bits(std::string_view name, uint64_t index) {
  return mix(name_key(name) ^ mix(index));
}

/// Uniform in [-1, 1) with 16 bits.
inline float unit(std::string_view name, uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(bits(name, index) >> 48) - 32768) / 32768.0f;
}

/// Initial weight `index` (row-major) of the tensor with this Hugging Face name; exact.
inline float weight(std::string_view name, uint64_t index) {
  const bool gain = name.ends_with("ln_1.weight") || name.ends_with("ln_2.weight") ||
                    name.ends_with("ln_f.weight");
  const float scale = name.ends_with("c_attn.weight") ? 0.5f
                      : name.ends_with("c_fc.weight") ? 0.25f
                                                      : 0.125f;
  return (gain ? 1.0f : 0.0f) + scale * unit(name, index);
}

inline int32_t token(uint64_t index, uint32_t vocabulary) {
  return static_cast<int32_t>(bits("tokens", index) % vocabulary);
}

// ---- expected values
// -----------------------------------------------------------------------------

/// What is known of one tensor: its L2 norm, its projection on `unit(name + ".probe", i)`, which
/// finds permuted elements, and some elements. `float32_error` is |float32 - exact| / |exact| of a
/// PyTorch run in float32: what rounding alone costs.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  double norm, probe, float32_error;
  std::vector<uint64_t> indices;  // of `values`, row-major
  std::vector<double> values;

  uint64_t elems() const {
    uint64_t n = 1;
    for (int64_t d : shape) n *= static_cast<uint64_t>(d);
    return n;
  }

  /// The largest difference of `actual` from this tensor, relative to its norm: over the norm
  /// itself, the projection and the known elements.
  double error(std::span<const float> actual) const {
    if (actual.size() != elems()) return INFINITY;
    double squares = 0, projection = 0, size = norm > 0 ? norm : 1;
    for (uint64_t i = 0; i < actual.size(); ++i) {
      squares += static_cast<double>(actual[i]) * actual[i];
      projection += static_cast<double>(actual[i]) * unit(name + ".probe", i);
    }
    double worst = std::fabs(std::sqrt(squares) - norm);
    worst = std::fmax(worst, std::fabs(projection - probe));
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::fmax(worst, std::fabs(actual[indices[i]] - values[i]));
    }
    return std::isnan(squares) ? INFINITY : worst / size;
  }
};

/// A few optimizer steps from the initial weights; step s trains on `Case::tokens(s)`.
struct Run {
  std::string optimizer;  // "adamw" or "sgd"
  uint32_t steps;
  double lr, beta1, beta2, eps;  // betas and eps: AdamW only
  double weight_decay;           // on tensors of rank >= 2; decoupled in AdamW, added to g in SGD
  double momentum;               // SGD only
  double clip;                   // 0: off; 1: active every step; 100: on, never active
  std::vector<double> losses;    // of every step, before its update
  std::vector<double> gradient_norms;  // global, before clipping
  std::vector<Tensor> weights;         // after the last step; empty where clip is 100
};

struct Case {
  std::string model;  // as `--model` takes it
  uint32_t layers, hidden, heads, vocabulary, context, batch, seq;
  double loss;                       // mean over all batch * seq targets, step 0
  std::vector<double> token_losses;  // [batch, seq]
  double gradient_norm;
  std::vector<Tensor> gradients;  // of `loss`, in registration order of the Hugging Face model
  double bf16_loss;               // the same with weights rounded to bf16 and exact arithmetic
  double bf16_gradient_norm;
  std::vector<double> bf16_gradient_norms;  // as `gradients`
  std::vector<Run> runs;

  /// Inputs [batch, seq] of a step; targets are the same one position later.
  std::vector<int32_t> tokens(uint32_t step) const { return ids(step, 0); }
  std::vector<int32_t> targets(uint32_t step) const { return ids(step, 1); }

 private:
  std::vector<int32_t> ids(uint32_t step, uint32_t shift) const {
    std::vector<int32_t> out;
    for (uint64_t b = 0; b < batch; ++b) {
      for (uint64_t t = 0; t < seq; ++t) {
        out.push_back(token((uint64_t{step} * batch + b) * (seq + 1) + t + shift, vocabulary));
      }
    }
    return out;
  }
};

inline std::vector<Tensor> read_tensors(const nlohmann::json& list) {
  std::vector<Tensor> out;
  for (const auto& j : list) {
    Tensor t{j.at("name"), j.at("shape"), j.at("norm"), j.at("probe"), j.at("float32_error"),
             {},           j.at("values")};
    const bool whole = t.values.size() == t.elems();
    for (uint64_t i = 0; i < t.values.size(); ++i) {
      t.indices.push_back(whole ? i : bits(t.name + ".sample", i) % t.elems());
    }
    out.push_back(std::move(t));
  }
  return out;
}

inline Run read_run(const nlohmann::json& j) {
  Run r{j.at("optimizer"),    j.at("steps"),          j.at("lr"),
        j.at("beta1"),        j.at("beta2"),          j.at("eps"),
        j.at("weight_decay"), j.at("momentum"),       j.at("clip"),
        j.at("losses"),       j.at("gradient_norms"), {}};
  if (j.contains("weights")) r.weights = read_tensors(j.at("weights"));
  return r;
}

/// Every case of the golden.json beside this header. Throws when it is missing or malformed.
inline std::vector<Case> load() {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "golden.json";
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::vector<Case> out;
  const nlohmann::json file = nlohmann::json::parse(in);
  for (const auto& j : file.at("cases")) {
    Case c;
    c.model = j.at("model");
    c.layers = j.at("layers");
    c.hidden = j.at("hidden");
    c.heads = j.at("heads");
    c.vocabulary = j.at("vocabulary");
    c.context = j.at("context");
    c.batch = j.at("batch");
    c.seq = j.at("seq");
    c.loss = j.at("loss");
    c.token_losses = j.at("token_losses").get<std::vector<double>>();
    c.gradient_norm = j.at("gradient_norm");
    c.gradients = read_tensors(j.at("gradients"));
    // Guards the formulas above against drift.
    for (size_t i = 0; i < c.gradients.size(); ++i) {
      const Tensor& t = c.gradients[i];
      const auto& w = j.at("weights").at(i);
      if (weight(t.name, 0) != w.at("first").get<float>() ||
          weight(t.name, t.elems() - 1) != w.at("last").get<float>()) {
        throw std::runtime_error("golden weights of " + t.name + " are not reproduced");
      }
    }
    const auto& bf16 = j.at("bf16_weights");
    c.bf16_loss = bf16.at("loss");
    c.bf16_gradient_norm = bf16.at("gradient_norm");
    for (const Tensor& t : c.gradients) {
      c.bf16_gradient_norms.push_back(bf16.at("norms").at(t.name));
    }
    for (const auto& r : j.at("runs")) c.runs.push_back(read_run(r));
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace strata::golden
