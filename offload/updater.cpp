#include "offload/updater.hpp"

#include <algorithm>
#include <cstring>

namespace strata {
namespace {

/// What the kernel needs of the optimizer, by value in the launch record.
struct Hyper {
  OptimizerKind kind;
  bool has_m;
  float weight_decay;
  double beta1, beta2, eps, momentum;
  const ParamSpec* params;
};

constexpr uint32_t kBatch = 64;  // slices handed to the kernel at once, on the stack

template <class Slice>
void fill(Slice& s, const UpdateJob& job, const ChunkSlice& c, const Hyper& h) {
  const size_t w = size_of(job.weight_type);
  s.weight = job.planes.at(Plane::weight, c.chunk_offset, w);
  s.remainder =
      job.weight_type == DType::bf16
          ? reinterpret_cast<uint16_t*>(job.planes.at(Plane::remainder, c.chunk_offset, 2))
          : nullptr;
  s.grad = job.planes.at(Plane::grad, c.chunk_offset, size_of(job.grad_type));
  s.m = h.has_m ? reinterpret_cast<float*>(job.planes.at(Plane::m, c.chunk_offset, 4)) : nullptr;
  s.n = c.elems;
  s.weight_decay = h.params[c.param].decay ? h.weight_decay : 0.0f;
}

/// Finds which of the slices it was: rare, so a look at every weight is cheap enough.
void name_nonfinite(const UpdateJob& job, std::span<const ChunkSlice> slices) {
  for (const ChunkSlice& c : slices) {
    const size_t size = size_of(job.weight_type);
    const std::byte* weights = job.planes.at(Plane::weight, c.chunk_offset, size);
    for (uint64_t i = 0; i < c.elems; ++i) {
      uint32_t bits = 0;
      // A bf16 is the upper half of a float.
      std::memcpy(reinterpret_cast<std::byte*>(&bits) + sizeof bits - size, weights + i * size,
                  size);
      if ((bits & 0x7f800000) != 0x7f800000) continue;
      uint32_t seen = job.nonfinite->load(std::memory_order_relaxed);
      while (c.param < seen && !job.nonfinite->compare_exchange_weak(seen, c.param)) {
      }
      break;
    }
  }
}

void run_update(HostContext& host, UpdateJob job, Hyper h) {
  std::array<kernels::AdamWSlice, kBatch> adamw;
  std::array<kernels::SgdSlice, kBatch> sgd;
  std::atomic<uint32_t> nonfinite{0};
  for (uint32_t begin = 0; begin < job.slice_count; begin += kBatch) {
    const uint32_t n = std::min(kBatch, job.slice_count - begin);
    for (uint32_t i = 0; i < n; ++i) {
      const ChunkSlice& c = job.slices[begin + i];
      if (h.kind == OptimizerKind::adamw) {
        fill(adamw[i], job, c, h);
        adamw[i].v = reinterpret_cast<float*>(job.planes.at(Plane::v, c.chunk_offset, 4));
      } else {
        fill(sgd[i], job, c, h);
      }
    }
    if (h.kind == OptimizerKind::adamw) {
      kernels::adamw(host.pool, std::span(adamw).first(n), job.weight_type, job.grad_type,
                     {job.lr, h.beta1, h.beta2, h.eps}, job.scale, &nonfinite);
    } else {
      kernels::sgd(host.pool, std::span(sgd).first(n), job.weight_type, job.grad_type,
                   {job.lr, h.momentum}, job.scale, &nonfinite);
    }
    if (nonfinite.load(std::memory_order_relaxed) != 0) {
      name_nonfinite(job, std::span(job.slices + begin, n));
      nonfinite.store(0, std::memory_order_relaxed);
    }
  }
}

class ElementwiseUpdater final : public Updater {
 public:
  ElementwiseUpdater(const OptimizerConfig& c, std::span<const ParamSpec> params)
      : config_(c), params_(params) {}

  const OptimizerConfig& config() const noexcept override { return config_; }

  /// Weight, remainder, m and v are read and written, the gradient read.
  uint64_t bytes_per_element() const noexcept override {
    return 8 + (config_.has_m() ? 8 : 0) + (config_.has_v() ? 8 : 0) + 4;
  }

  void update(Stream& stream, const UpdateJob& job) const override {
    uint64_t elems = 0;
    for (uint32_t i = 0; i < job.slice_count; ++i) elems += job.slices[i].elems;
    launch_native<run_update, HostContext>(
        stream, Cost{0, elems * bytes_per_element()}, job,
        Hyper{config_.kind, config_.has_m(), static_cast<float>(config_.weight_decay),
              config_.beta1, config_.beta2, config_.eps, config_.momentum, params_.data()});
  }

 private:
  OptimizerConfig config_;
  std::span<const ParamSpec> params_;
};

}  // namespace

std::unique_ptr<Updater> make_updater(const OptimizerConfig& config,
                                      std::span<const ParamSpec> params) {
  return std::make_unique<ElementwiseUpdater>(config, params);
}

}  // namespace strata
