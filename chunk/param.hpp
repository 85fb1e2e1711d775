// What a model tells Strata about its tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/dtype.hpp"

namespace strata {

using ParamId = uint32_t;
using ChunkId = uint32_t;
using GroupId = uint16_t;

/// One tensor, in computation order. `tied_to`: this name is the same storage as an earlier
/// parameter; it gets no storage of its own.
struct ParamSpec {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::f32;
  GroupId group = 0;
  bool trainable = true;
  /// Whether the optimizer's weight decay applies (GPT-2: matrices only).
  bool decay = true;
  std::optional<ParamId> tied_to;

  uint64_t elems() const noexcept {
    uint64_t n = 1;
    for (const int64_t d : shape) n *= static_cast<uint64_t>(d);
    return n;
  }
  bool operator==(const ParamSpec&) const = default;
};

/// What a chunk holds. Planes of a chunk are congruent: same tensors at the same element offsets.
enum class Plane : uint8_t { weight, grad, remainder, m, v };
constexpr size_t kPlanes = 5;
const char* name_of(Plane) noexcept;

}  // namespace strata
