// What an op's body sees, and state in and out.
#include <algorithm>
#include <cstring>

#include "offload/engine.hpp"
#include "offload/engine_kernels.hpp"
#include "runtime/errors.hpp"
#include "runtime/kernels/split_master.hpp"

namespace strata {
namespace {

/// Most bytes of state that go in or out at a time.
constexpr size_t kBlockBytes = 1 << 20;

}  // namespace

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
  if (tick_ != 0) settle();
  const size_t block = backend_.executes() ? kBlock : 0;
  std::vector<float> master(block);
  std::vector<uint16_t> hi(block), lo(block);
  Stream& stream = backend_.stream(Resource::update);
  const bool split = shape_.weight_type() == DType::bf16;
  for (const Piece& piece : layout_.of_param(p)) {
    const ObjId weight{piece.chunk, Plane::weight}, remainder{piece.chunk, Plane::remainder};
    const bool keeps_rest = split && shape_.units(remainder) != 0;
    const Place to = stage(weight), rest_to = keeps_rest ? stage(remainder) : to;
    order_writes(units_of(weight, to), to, Resource::update);
    if (keeps_rest) order_writes(units_of(remainder, rest_to), rest_to, Resource::update);
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
    write_units(units_of(weight, to), to, Resource::update, fence);
    table_.written(weight, to);
    unstage(weight, to, true);
    if (!keeps_rest) continue;
    write_units(units_of(remainder, rest_to), rest_to, Resource::update, fence);
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

/// Cuts a piece of a plane where units end, and into blocks: block(bytes from the start of the
/// tensor, offset in elements from the start of the chunk, bytes).
template <class Block>
void Engine::for_each_block(const Piece& piece, Plane plane, const Block& block) const {
  if (shape_.units({piece.chunk, plane}) == 0) {
    throw StateError("parameter " + layout_.params()[piece.param].name + " has no plane " +
                     name_of(plane));
  }
  const size_t size = shape_.element_bytes(plane);
  const uint64_t unit_elems = shape_.unit_bytes() / size;
  for (uint64_t at = 0; at < piece.elems;) {
    const uint64_t offset = piece.chunk_offset + at;
    const uint64_t take = std::min(
        {piece.elems - at, unit_elems - offset % unit_elems, uint64_t{kBlockBytes} / size});
    block((piece.param_offset + at) * size, offset, take * size);
    at += take;
  }
}

/// Ends everything that runs or is pending.
void Engine::settle() {
  flush();
  backend_.drain();
}

void Engine::visit(ParamId p, Plane plane, const VisitFn& visit) {
  settle();
  const size_t size = shape_.element_bytes(plane);
  std::vector<std::byte> block(std::min(kBlockBytes, shape_.unit_bytes()));
  Stream& stream = backend_.stream(Resource::d2h);
  for (const Piece& piece : layout_.of_param(p)) {
    const ObjId id{piece.chunk, plane};
    const Place from = stage(id);
    order_reads(units_of(id, from), from, Resource::d2h);
    for_each_block(piece, plane, [&](uint64_t byte, uint64_t offset, size_t bytes) {
      stream.copy(block.data(), address(id, from, offset, size), bytes);
      backend_.wait(stream.record());
      visit(byte, block.data(), bytes);
    });
    read_units(units_of(id, from), from, Resource::d2h, stream.record());
    unstage(id, from, false);
  }
}

void Engine::load(ParamId p, Plane plane, const LoadFn& load) {
  settle();
  const size_t size = shape_.element_bytes(plane);
  std::vector<std::byte> block(std::min(kBlockBytes, shape_.unit_bytes()));
  Stream& stream = backend_.stream(Resource::update);
  for (const Piece& piece : layout_.of_param(p)) {
    const ObjId id{piece.chunk, plane};
    const Place to = stage(id);
    order_writes(units_of(id, to), to, Resource::update);
    for_each_block(piece, plane, [&](uint64_t byte, uint64_t offset, size_t bytes) {
      load(byte, block.data(), bytes);
      stream.copy(address(id, to, offset, size), block.data(), bytes);
      backend_.wait(stream.record());
    });
    write_units(units_of(id, to), to, Resource::update, stream.record());
    table_.written(id, to);
    unstage(id, to, true);
  }
}

}  // namespace strata
