#include "offload/state_shape.hpp"

#include <algorithm>

#include "runtime/errors.hpp"

namespace strata {

StateShape::StateShape(const ChunkLayout& layout, const Program& first,
                       const OptimizerConfig& optimizer)
    : weight_type_(layout.classes().front().dtype),
      has_m_(optimizer.has_m()),
      has_v_(optimizer.has_v()),
      slices_(layout.chunks()) {
  for (const ChunkClass& c : layout.classes()) {
    if (c.dtype != weight_type_) {
      throw ConfigError("weights of different dtypes in one model are not supported");
    }
  }
  unit_bytes_ = layout.chunk_elems() * size_of(weight_type_);
  grad_type_ = first.accumulator_type(weight_type_);
  // fp32 planes of a bf16 chunk have two units; cutting there keeps every slice inside one unit.
  const uint64_t cut = unit_bytes_ / 4;
  for (ChunkId c = 0; c < layout.chunks(); ++c) {
    for (const Piece& p : layout.in_chunk(c)) {
      if (!layout.class_of(c).trainable || !first.has_gradient(p.param)) continue;
      for (uint64_t at = 0; at < p.elems;) {
        const uint64_t begin = p.chunk_offset + at;
        const uint64_t take = std::min(p.elems - at, (begin / cut + 1) * cut - begin);
        slices_[c].push_back({p.param, p.param_offset + at, begin, take});
        at += take;
      }
    }
  }
}

size_t StateShape::element_bytes(Plane plane) const noexcept {
  switch (plane) {
    case Plane::weight: return size_of(weight_type_);
    case Plane::grad: return size_of(grad_type_);
    case Plane::remainder: return sizeof(uint16_t);
    case Plane::m:
    case Plane::v: return sizeof(float);
  }
  return 0;
}

uint32_t StateShape::units(ObjId id) const noexcept {
  if (id.plane != Plane::weight && !trained(id.chunk)) return 0;
  const uint32_t fp32_units = weight_type_ == DType::bf16 ? 2 : 1;
  switch (id.plane) {
    case Plane::weight: return 1;
    case Plane::grad: return grad_type_ == DType::f32 ? fp32_units : 1;
    case Plane::remainder: return weight_type_ == DType::bf16 ? 1 : 0;
    case Plane::m: return has_m_ ? fp32_units : 0;
    case Plane::v: return has_v_ ? fp32_units : 0;
  }
  return 0;
}

uint32_t StateShape::chunk_units(ChunkId c) const noexcept {
  uint32_t n = 0;
  for (size_t p = 0; p < kPlanes; ++p) n += units({c, static_cast<Plane>(p)});
  return n;
}

}  // namespace strata
