#include "train/direct_step.hpp"

#include <algorithm>
#include <cstring>

#include "offload/engine_kernels.hpp"
#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/kernels/split_master.hpp"

namespace strata {
namespace {

/// Adds the seconds of its life.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), start_(seconds_now()) {}
  ~Stopwatch() { sum_ += seconds_now() - start_; }
  Stopwatch(const Stopwatch&) = delete;

 private:
  double& sum_;
  double start_;
};

}  // namespace

void DirectStep::InlineStream::do_copy(void* dst, const void* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
}

DirectStep::DirectStep(const Workload& workload)
    : workload_(workload),
      input_(workload.plan_input({})),
      layout_(workload.layout()),
      shape_(workload.shape()),
      program_(workload.program(Mode::train)),
      pool_(workload.config().threads),
      stream_(pool_),
      records_(layout_, shape_, program_.micro_batches()),
      ready_(layout_.chunks()) {
  uint64_t bytes = 0;
  std::array<uint64_t, kPlanes> begin{};
  for (size_t p = 0; p < kPlanes; ++p) {
    uint32_t units = 0;
    for (ChunkId c = 0; c < layout_.chunks(); ++c) {
      units = std::max(units, shape_.units({c, static_cast<Plane>(p)}));
    }
    chunk_bytes_[p] = units * shape_.unit_bytes();
    begin[p] = bytes;
    bytes += layout_.chunks() * chunk_bytes_[p];
  }
  arena_ = allocate_pages(bytes + records_.bytes() + program_.non_model_bytes(),
                          "a measurement of kernels");
  for (size_t p = 0; p < kPlanes; ++p) planes_[p] = arena_.base() + begin[p];
  record_base_ = arena_.base() + bytes;
  values_ = record_base_ + records_.bytes();
  record_ = reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step());
  *record_ = StepRecord{};
  norm_table_ = std::make_unique<NormTable>(layout_, shape_, records_, record_base_);
  initialize();
}

void DirectStep::initialize() {
  const bool split = shape_.weight_type() == DType::bf16;
  std::vector<float> master;
  for (ParamId p = 0; p < layout_.params().size(); ++p) {
    if (layout_.storage_of(p) != p) continue;
    master.resize(layout_.params()[p].elems());
    workload_.model().initialize(p, workload_.config().seed, 0, master.size(), master.data());
    std::byte* const weights = address(p, Plane::weight);
    if (!split) {
      std::memcpy(weights, master.data(), master.size() * sizeof(float));
      continue;
    }
    const bool keeps_rest = program_.has_gradient(p);
    auto* const rest = reinterpret_cast<uint16_t*>(address(p, Plane::remainder));
    for (size_t i = 0; i < master.size(); ++i) {
      const kernels::SplitMaster m = kernels::split(master[i]);
      reinterpret_cast<uint16_t*>(weights)[i] = m.hi.bits;
      if (keeps_rest) rest[i] = m.lo;
    }
  }
}

DirectStep::Times DirectStep::step(const TokenBatch& batch, const StepParams& params) {
  use_ieee_denormals();
  const ThreadPool::Turn turn(pool_);
  times_ = {};
  params_ = params;
  cursor_ = 0;
  Model& model = *workload_.programs()[workload_.index_of(Mode::train)].model;
  model.set_batch(batch);
  const double start = seconds_now();
  for (const BlockCall& call : program_.calls()) {
    model.run(*this, call.kind, call.block, Mode::train);
  }
  finish();
  times_.compute = seconds_now() - start - times_.norm - times_.update;
  return times_;
}

OpScope* DirectStep::enter(const OpInfo& info, std::initializer_list<TensorUse>,
                           std::initializer_list<ValueId>, std::initializer_list<ValueId>) {
  if (cursor_ >= program_.ops().size() || std::strcmp(op().name, info.name) != 0) {
    throw StateError(std::string("op ") + info.name + " was run where the program has another");
  }
  if (op().skip) {
    ++cursor_;
    return nullptr;
  }
  for (const GradTarget& g : op().grads) {
    if (!g.sparse || !g.first) continue;
    const ScatteredTensor t = accumulator(g.param);
    launch_native<zero_bytes, HostContext>(stream_, Cost{}, t.pieces[0].data,
                                           t.pieces[0].elems * size_of(shape_.grad_type()));
  }
  return this;
}

void DirectStep::leave() {
  add_staged_gradients();
  for (const ChunkId c : op().completes) {
    const Stopwatch watch(times_.norm);
    sum_squares(c);
    ready_[c] = true;
  }
  if (workload_.config().clip <= 0) update_retired();
  ++cursor_;
}

/// Without a step-wide value a chunk is updated once nothing reads its weights any more.
void DirectStep::update_retired() {
  for (const ObjUse& u : op().uses) {
    const ChunkId c = u.object.chunk;
    const bool read_again =
        program_.next_use({c, Plane::weight}, cursor_ + 1) != program_.ops().size();
    if (ready_[c] && !read_again) update(c, scales() + c);
  }
}

void DirectStep::finish() {
  const auto [inv1, inv2] = inverse_bias(input_.updater.config(), params_.step);
  const double clip = workload_.config().clip;
  {
    const Stopwatch watch(times_.norm);
    finish_step({norm_table_.get(), record_, losses(), program_.micro_batches(),
                 params_.target_tokens, clip, inv1, inv2});
  }
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    if (ready_[c]) update(c, clip > 0 ? &record_->scale : scales() + c);
  }
}

void DirectStep::add_staged_gradients() {
  const DType from = shape_.weight_type(), to = shape_.grad_type();
  for (const GradTarget& g : op().grads) {
    if (g.direct || g.sparse) continue;
    const void* staged = values_ + op().staging_offset + g.staging_offset;
    const ScatteredTensor::Piece t = accumulator(g.param).pieces[0];
    if (g.first) {
      launch_native<store_gradient, HostContext>(stream_, Cost{}, t.data, to, staged, from,
                                                 t.elems);
    } else {
      launch_native<add_gradient, HostContext>(stream_, Cost{}, t.data, to, staged, from, t.elems);
    }
  }
}

void DirectStep::sum_squares(ChunkId c) {
  const auto& slices = shape_.slices(c);
  auto* const nodes = reinterpret_cast<double*>(record_base_ + records_.nodes(c, 0));
  launch_native<sum_chunk_squares, HostContext>(
      stream_, Cost{},
      SquareSumJob{addresses(c), slices.data(), static_cast<uint32_t>(slices.size()),
                   shape_.grad_type(), layout_.params().data(), nodes});
  if (workload_.config().clip > 0) return;
  const uint64_t node_bytes = records_.nodes(c, slices.size()) - records_.nodes(c, 0);
  const auto [inv1, inv2] = inverse_bias(input_.updater.config(), params_.step);
  finish_chunk({record_, scales() + c, losses(), program_.micro_batches(), nodes,
                static_cast<uint32_t>(node_bytes / sizeof(double)), inv1, inv2});
}

void DirectStep::update(ChunkId c, const kernels::StepScale* scale) {
  const Stopwatch watch(times_.update);
  const auto& slices = shape_.slices(c);
  input_.updater.update(stream_,
                        {addresses(c), slices.data(), static_cast<uint32_t>(slices.size()),
                         shape_.weight_type(), shape_.grad_type(), scale, &nonfinite_, params_.lr});
  ready_[c] = false;
}

std::byte* DirectStep::chunk(ChunkId c, Plane plane) const {
  const auto p = static_cast<size_t>(plane);
  return planes_[p] + c * chunk_bytes_[p];
}

std::byte* DirectStep::address(ParamId p, Plane plane) const {
  const Piece& first = layout_.of_param(p).front();
  return chunk(first.chunk, plane) + first.chunk_offset * shape_.element_bytes(plane);
}

PlaneAddresses DirectStep::addresses(ChunkId c) const {
  PlaneAddresses out;
  out.unit_bytes = shape_.unit_bytes();
  for (size_t p = 0; p < kPlanes; ++p) {
    const uint32_t units = shape_.units({c, static_cast<Plane>(p)});
    for (uint32_t i = 0; i < units; ++i) {
      out.units[p][i] = chunk(c, static_cast<Plane>(p)) + i * out.unit_bytes;
    }
  }
  return out;
}

void* DirectStep::gradient(ParamId p) const {
  const ParamId storage = layout_.storage_of(p);
  for (const GradTarget& g : op().grads) {
    if (g.param != storage || g.sparse) continue;
    if (!g.direct) return values_ + op().staging_offset + g.staging_offset;
    return address(p, Plane::grad);
  }
  throw StateError(std::string("op ") + op().name + " did not declare the gradient of " +
                   layout_.params()[p].name);
}

ScatteredTensor DirectStep::accumulator(ParamId p) const {
  ScatteredTensor out;
  out.count = 1;
  out.pieces[0] = {address(p, Plane::grad), 0, layout_.params()[p].elems()};
  return out;
}

void* DirectStep::value(ValueId v) const {
  for (const ValueRef& ref : op().values) {
    if (ref.value == v) return values_ + ref.offset;
  }
  throw StateError(std::string("op ") + op().name + " did not declare value " + std::to_string(v));
}

double* DirectStep::losses() const {
  return reinterpret_cast<double*>(record_base_ + records_.losses());
}

kernels::StepScale* DirectStep::scales() const {
  return reinterpret_cast<kernels::StepScale*>(record_base_ + records_.chunk_scales());
}

std::vector<std::byte> DirectStep::read(ParamId p, Plane plane) const {
  const std::byte* const begin = address(p, plane);
  return {begin, begin + layout_.params()[p].elems() * shape_.element_bytes(plane)};
}

}  // namespace strata
