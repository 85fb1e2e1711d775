// What an op's body sees, and state in and out.
#include <algorithm>
#include <cstring>

#include "offload/engine.hpp"
#include "offload/engine_kernels.hpp"
#include "runtime/errors.hpp"
#include "runtime/kernels/split_master.hpp"

namespace strata {

Stream& Engine::stream() const { return backend_.stream(Resource::compute); }

void Engine::expect_declared(ParamId p, Plane plane) const {
  for (const ObjUse& u : current_op().uses) {
    if (u.object == ObjId{layout_.of_param(p).front().chunk, plane}) return;
  }
  throw StateError(std::string("op ") + current_op().name + " did not declare the " +
                   name_of(plane) + " of " + layout_.params()[p].name);
}

const void* Engine::weight(ParamId p) const {
  expect_declared(p, Plane::weight);
  const Piece& first = layout_.of_param(p).front();
  return address({first.chunk, Plane::weight}, Place::device, first.chunk_offset,
                 size_of(shape_.weight_type()));
}

void* Engine::gradient(ParamId p) const {
  const ParamId storage = layout_.storage_of(p);
  const ProgramOp& op = current_op();
  for (const GradTarget& g : op.grads) {
    if (g.param != storage || g.sparse) continue;
    if (!g.direct) return values_ + op.staging_offset + g.staging_offset;
    const Piece& first = layout_.of_param(p).front();
    return address({first.chunk, Plane::grad}, Place::device, first.chunk_offset,
                   size_of(shape_.grad_type()));
  }
  throw StateError(std::string("op ") + op.name + " did not declare the gradient of " +
                   layout_.params()[p].name);
}

ScatteredTensor Engine::accumulator(ParamId p) const {
  expect_declared(p, Plane::grad);
  ScatteredTensor out;
  const size_t size = size_of(shape_.grad_type());
  const uint64_t unit_elems = shape_.unit_bytes() / size;
  for (const Piece& piece : layout_.of_param(p)) {
    for (uint64_t at = 0; at < piece.elems;) {
      const uint64_t offset = piece.chunk_offset + at;
      const uint64_t take =
          std::min(piece.elems - at, (offset / unit_elems + 1) * unit_elems - offset);
      std::byte* data = address({piece.chunk, Plane::grad}, Place::device, offset, size);
      ScatteredTensor::Piece* last = out.count == 0 ? nullptr : &out.pieces[out.count - 1];
      // Windows are contiguous across chunks: one run.
      if (last != nullptr && static_cast<std::byte*>(last->data) + last->elems * size == data) {
        last->elems += take;
      } else if (out.count == ScatteredTensor::kMaxPieces) {
        throw StateError("tensor " + layout_.params()[p].name + " lies in too many pieces");
      } else {
        out.pieces[out.count++] = {data, piece.param_offset + at, take};
      }
      at += take;
    }
  }
  return out;
}

void* Engine::value(ValueId v) const {
  for (const ValueRef& ref : current_op().values) {
    if (ref.value == v) return values_ + ref.offset;
  }
  throw StateError(std::string("op ") + current_op().name + " did not declare value " +
                   std::to_string(v));
}

std::byte* Engine::workspace() const { return values_ + current_op().workspace_offset; }
uint32_t Engine::micro_batch() const { return current_op().micro_batch; }

double* Engine::loss() const {
  return reinterpret_cast<double*>(record_base_ + records_.losses()) + current_op().micro_batch;
}

void Engine::set_weight(ParamId p, const FillFn& fill) {
  constexpr uint64_t kBlock = 64 << 10;
  if (tick_ != 0) {
    flush();
    backend_.drain();
  }
  const size_t block = backend_.executes() ? kBlock : 0;
  std::vector<float> master(block);
  std::vector<uint16_t> hi(block), lo(block);
  Stream& stream = backend_.stream(Resource::update);
  const bool split = shape_.weight_type() == DType::bf16;
  for (const Piece& piece : layout_.of_param(p)) {
    const ObjId weight{piece.chunk, Plane::weight}, remainder{piece.chunk, Plane::remainder};
    const bool keeps_rest = split && shape_.units(remainder) != 0;
    const Place to = stage(weight), rest_to = keeps_rest ? stage(remainder) : to;
    order_writes(weight, to, Resource::update);
    if (keeps_rest) order_writes(remainder, rest_to, Resource::update);
    // In virtual time there is nothing to fill, but the same to move.
    for (uint64_t at = 0; at < piece.elems && backend_.executes(); at += kBlock) {
      const uint64_t n = std::min(kBlock, piece.elems - at);
      const uint64_t offset = piece.chunk_offset + at;
      fill(piece.param_offset + at, n, master.data());
      if (!split) {
        stream.copy(address(weight, to, offset, 4), master.data(), n * 4);
      } else {
        for (uint64_t i = 0; i < n; ++i) {
          const kernels::SplitMaster m = kernels::split(master[i]);
          hi[i] = m.hi.bits;
          lo[i] = m.lo;
        }
        stream.copy(address(weight, to, offset, 2), hi.data(), n * 2);
        if (keeps_rest) stream.copy(address(remainder, rest_to, offset, 2), lo.data(), n * 2);
      }
      backend_.wait(stream.record());
    }
    const Fence fence = stream.record();
    write_units(weight, to, Resource::update, fence);
    table_.written(weight, to);
    unstage(weight, to, true);
    if (!keeps_rest) continue;
    write_units(remainder, rest_to, Resource::update, fence);
    table_.written(remainder, rest_to);
    unstage(remainder, rest_to, true);
  }
}

void Engine::zero_state() {
  Stream& stream = backend_.stream(Resource::update);
  auto* records = record_base_;
  launch_native<zero_bytes, HostContext>(stream, Cost{}, static_cast<void*>(records),
                                         plan_.need.non_model_bytes);
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      const ObjId id{c, static_cast<Plane>(p)};
      const Object& o = table_.at(id);
      if (!o.exists) continue;
      // NVMe begins with zeros.
      const UnitList& units = o.at(o.home).units;
      for (uint32_t i = 0; i < units.count && o.home != Place::nvme; ++i) {
        launch_native<zero_bytes, HostContext>(
            stream, Cost{}, static_cast<void*>(pool(o.home).address(units.ids[i])),
            static_cast<uint64_t>(shape_.unit_bytes()));
      }
      if (id.plane != Plane::grad) table_.written(id, o.home);
    }
  }
  backend_.drain();
  if (!backend_.executes()) return;
  *reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step()) = StepRecord{};
}

void Engine::visit(ParamId p, Plane plane, const VisitFn& visit) {
  constexpr size_t kBlockBytes = 1 << 20;
  flush();
  backend_.drain();
  const size_t size = shape_.element_bytes(plane);
  const uint64_t unit_elems = shape_.unit_bytes() / size;
  std::vector<std::byte> block(std::min(kBlockBytes, shape_.unit_bytes()));
  Stream& stream = backend_.stream(Resource::d2h);
  for (const Piece& piece : layout_.of_param(p)) {
    const ObjId id{piece.chunk, plane};
    if (shape_.units(id) == 0) {
      throw StateError("parameter " + layout_.params()[p].name + " has no plane " + name_of(plane));
    }
    const Place from = stage(id);
    order_reads(id, from, Resource::d2h);
    for (uint64_t at = 0; at < piece.elems;) {
      const uint64_t offset = piece.chunk_offset + at;
      const uint64_t take =
          std::min({piece.elems - at, (offset / unit_elems + 1) * unit_elems - offset,
                    uint64_t{block.size()} / size});
      stream.copy(block.data(), address(id, from, offset, size), take * size);
      backend_.wait(stream.record());
      visit((piece.param_offset + at) * size, block.data(), take * size);
      at += take;
    }
    read_units(id, from, Resource::d2h, stream.record());
    unstage(id, from, false);
  }
}

}  // namespace strata
