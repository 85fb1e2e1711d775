// The optimizer as the engine sees it: planes of one chunk in, planes of one chunk out.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "chunk/layout.hpp"
#include "runtime/backend.hpp"
#include "runtime/kernels/optimizer.hpp"

namespace strata {

/// A run of one tensor inside one chunk that crosses no unit boundary of any plane.
struct ChunkSlice {
  ParamId param;
  uint64_t param_offset, chunk_offset, elems;
};

/// Addresses of a chunk's units, by plane, wherever they are.
struct PlaneAddresses {
  std::array<std::array<std::byte*, 2>, kPlanes> units{};
  size_t unit_bytes = 0;

  /// Address of an element of a plane whose elements have `size` bytes.
  std::byte* at(Plane p, uint64_t chunk_offset, size_t size) const noexcept {
    const uint64_t byte = chunk_offset * size;
    return units[static_cast<size_t>(p)][byte / unit_bytes] + byte % unit_bytes;
  }
};

enum class OptimizerKind : uint8_t { adamw, sgd };

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.1, momentum = 0.0;

  bool has_m() const noexcept { return kind == OptimizerKind::adamw || momentum != 0; }
  bool has_v() const noexcept { return kind == OptimizerKind::adamw; }
};

struct UpdateJob {
  PlaneAddresses planes;
  const ChunkSlice* slices;  // outlives the launch
  uint32_t slice_count;
  DType weight_type, grad_type;
  const kernels::StepScale* scale;  // read when the update runs
  /// Lowered to the first tensor with a weight that is not finite.
  std::atomic<uint32_t>* nonfinite;
  double lr;
};

/// Enqueues the update of one chunk. Implementations keep no per-chunk state: it is in the planes.
class Updater {
 public:
  virtual ~Updater() = default;
  virtual void update(Stream&, const UpdateJob&) const = 0;
  virtual const OptimizerConfig& config() const noexcept = 0;
  /// Bytes that an update reads and writes for each element.
  virtual uint64_t bytes_per_element() const noexcept = 0;
};

/// AdamW or SGD. `params` gives each tensor's weight decay flag and must outlive the updater.
std::unique_ptr<Updater> make_updater(const OptimizerConfig&, std::span<const ParamSpec> params);

}  // namespace strata
