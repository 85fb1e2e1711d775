// Virtual time: the engine runs unchanged, nothing is executed, clocks advance.
#pragma once
#include <array>
#include <functional>
#include <memory>

#include "runtime/backend.hpp"

namespace strata {

/// Rates that turn costs into seconds, and what shares them.
struct VirtualRates {
  double flops_per_second = 1e11;         // compute
  double memory_bytes_per_second = 1e10;  // element-wise kernels, and updates among them
  double update_bytes_per_second = 1e10;  // updates where records live off the device
  double h2d_bytes_per_second = 1e10;
  double d2h_bytes_per_second = 1e10;
  double nvme_read_bytes_per_second = 2e9;
  double nvme_write_bytes_per_second = 2e9;
  /// Both ways together while the drive reads and writes at once; 0: neither slows the other.
  double nvme_mixed_bytes_per_second = 0;
  /// Compute, updates and copies between device and host run on the same cores: those that are busy
  /// at the same time share them equally.
  bool one_processor = false;
  double latency_seconds = 1e-6;  // of every copy and launch
  /// Not 0: every copy and launch takes a random multiple in [0, 8) of its time, drawn from this
  /// seed.
  uint64_t delay_seed = 0;
};

class VirtualStream;

/// Streams work through what was issued, sharing what they share, whenever the issuer waits:
/// issuing takes no time, and nothing that is issued later changes what happened before. A fence
/// carries the time it completed at. Memory is an address range that faults when touched.
class VirtualBackend final : public Backend {
 public:
  explicit VirtualBackend(const VirtualRates&);
  ~VirtualBackend() override;

  Stream& stream(Resource) override;
  Arena allocate(Tier, size_t bytes) override;
  bool executes() const noexcept override { return false; }
  void wait(const Fence&) override;
  void drain() override;
  double now() const override { return now_; }

  /// Seconds the stream had work that waited for fences, of all streams or of one.
  double waited(Resource) const override;
  double waited(Resource waiting, Resource on) const;
  /// Seconds the stream was busy, shared or not.
  double busy(Resource) const;
  /// Waits for the fence; when it was done, in seconds. It must be among its stream's last
  /// `FenceRing::kSlots`.
  double time_of(const Fence&);

 private:
  friend class VirtualStream;
  void run_until(const std::function<bool()>& done);
  bool settle();
  double share_of(size_t stream) const;

  VirtualRates rates_;
  double now_ = 0;
  std::array<std::unique_ptr<VirtualStream>, kResources> streams_;
};

}  // namespace strata
