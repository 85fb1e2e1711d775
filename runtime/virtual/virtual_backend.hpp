// Virtual time: the engine runs unchanged, nothing is executed, clocks advance.
#pragma once
#include <array>
#include <memory>

#include "runtime/backend.hpp"

namespace strata {

/// Rates that turn costs into seconds.
struct VirtualRates {
  double flops_per_second = 1e11;         // compute
  double memory_bytes_per_second = 1e10;  // element-wise kernels and updates
  double h2d_bytes_per_second = 1e10;
  double d2h_bytes_per_second = 1e10;
  double nvme_read_bytes_per_second = 2e9;
  double nvme_write_bytes_per_second = 2e9;
  double latency_seconds = 1e-6;  // of every copy and launch
  /// Not 0: every copy and launch takes a random multiple in [0, 8) of its time, drawn from this
  /// seed.
  uint64_t delay_seed = 0;
};

class VirtualStream;

/// Streams advance their own clocks; a fence carries the time it completes at. Memory is an address
/// range that faults when touched.
class VirtualBackend final : public Backend {
 public:
  explicit VirtualBackend(const VirtualRates&);
  ~VirtualBackend() override;

  Stream& stream(Resource) override;
  Arena allocate(Tier, size_t bytes) override;
  bool executes() const noexcept override { return false; }
  void wait(const Fence&) override;
  void drain() override;
  double waited(Resource) const override;
  /// The issuer's clock.
  double now() const override { return issuer_now_; }

  /// When the stream's last record ends, in seconds.
  double end_of(Resource) const;
  /// Seconds the stream was busy.
  double busy(Resource) const;

 private:
  friend class VirtualStream;
  double issuer_now_ = 0;
  std::array<std::unique_ptr<VirtualStream>, kResources> streams_;
};

}  // namespace strata
