#include "offload/step_record.hpp"

#include <algorithm>
#include <cmath>

namespace strata {
namespace {

uint64_t align64(uint64_t n) { return (n + 63) / 64 * 64; }

}  // namespace

RecordLayout::RecordLayout(const ChunkLayout& layout, const StateShape& shape,
                           uint32_t micro_batches)
    : nodes_(layout.chunks()) {
  losses_ = align64(sizeof(StepRecord));
  chunk_scales_ = align64(losses_ + micro_batches * sizeof(double));
  bytes_ = align64(chunk_scales_ + layout.chunks() * sizeof(kernels::StepScale));
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    for (const ChunkSlice& s : shape.slices(c)) {
      nodes_[c].push_back(bytes_);
      bytes_ += sizeof(double) * kernels::square_sum_node_count(s.param_offset, s.elems,
                                                                layout.params()[s.param].elems());
    }
    nodes_[c].push_back(bytes_);
  }
  bytes_ = align64(bytes_);
}

NormTable::NormTable(const ChunkLayout& layout, const StateShape& shape,
                     const RecordLayout& records, std::byte* base) {
  std::vector<std::vector<kernels::SquareSumSlice>> by_param(layout.params().size());
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    for (size_t i = 0; i < shape.slices(c).size(); ++i) {
      const ChunkSlice& s = shape.slices(c)[i];
      by_param[s.param].push_back(
          {s.param_offset, s.elems, reinterpret_cast<const double*>(base + records.nodes(c, i))});
    }
  }
  for (ParamId p = 0; p < by_param.size(); ++p) {
    if (by_param[p].empty()) continue;
    std::sort(by_param[p].begin(), by_param[p].end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    tensors_.push_back({p, layout.params()[p].elems(), std::move(by_param[p])});
  }
}

void finish_step(const NormInput& in) {
  double total = 0;
  uint32_t bad = UINT32_MAX;
  for (const NormTable::Tensor& t : in.table->tensors()) {
    const double sum = kernels::square_sum_combine(t.slices, t.elems);
    if (!std::isfinite(sum) && bad == UINT32_MAX) bad = t.param;
    total += sum;
  }
  double loss = 0;
  for (uint32_t m = 0; m < in.micro_batches; ++m) loss += in.losses[m];
  StepRecord& r = *in.record;
  r.loss = loss / in.target_tokens;
  r.grad_norm = std::sqrt(total);
  if (r.nonfinite_grad == UINT32_MAX) r.nonfinite_grad = bad;
  if (!std::isfinite(loss)) r.nonfinite_loss = 1;
  const bool finite = r.nonfinite_grad == UINT32_MAX && r.nonfinite_loss == 0;
  const bool clips = in.clip > 0 && r.grad_norm + 1e-6 > in.clip;
  r.scale = {clips ? static_cast<float>(in.clip / (r.grad_norm + 1e-6)) : 1.0f, finite ? 1u : 0u,
             in.inv_bias1, in.inv_bias2};
  r.as_expected = finite && !clips ? 1 : 0;
}

void finish_chunk(const ChunkScaleInput& in) {
  double sum = 0;
  for (uint32_t i = 0; i < in.node_count; ++i) sum += in.nodes[i];
  for (uint32_t m = 0; m < in.micro_batches; ++m) sum += in.losses[m];
  const StepRecord& r = *in.record;
  const bool finite = std::isfinite(sum) && r.nonfinite_grad == UINT32_MAX && r.nonfinite_loss == 0;
  *in.out = {1.0f, finite ? 1u : 0u, in.inv_bias1, in.inv_bias2};
}

}  // namespace strata
