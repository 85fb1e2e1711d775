// Virtual time: the engine runs unchanged, nothing is executed, clocks advance.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

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

/// Of work on the compute stream, at full speed.
double seconds_of(const Cost&, const VirtualRates&) noexcept;
/// The share of its own speed that a drive's stream has while both transfer.
double mixed_share(const VirtualRates&, Resource) noexcept;

/// What the streams have done up to a moment, in seconds.
struct VirtualTimes {
  struct Stream {
    /// Every moment it was either busy, or waited for a fence of a stream, or had nothing to do.
    double busy = 0, idle = 0;
    std::array<double, kResources> waited{};
    /// The same by who was at work meanwhile: the stream waited for, or whom that waited for.
    std::array<double, kResources> held_up_by{};
    /// Of the work done, what it takes at full speed; less than `busy` where speed is shared.
    double work = 0;
    /// Waits that were marked and took time.
    uint64_t marked_waits = 0;
  };
  double now = 0;
  std::array<Stream, kResources> streams;

  const Stream& of(Resource r) const noexcept { return streams[static_cast<size_t>(r)]; }
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

  /// `waited` is by who was at work meanwhile.
  StreamTimes stream_times(Resource) const override;
  void observe(StreamObserver*) override;
  /// Seconds the stream had work that waited for fences, of all streams or of one.
  using Backend::waited;
  double waited(Resource waiting, Resource on) const;
  /// Seconds the stream was busy, shared or not.
  double busy(Resource) const;
  VirtualTimes times() const;
  /// Fills `out`, which must outlive the wait, when the fence is done.
  void take_times(const Fence&, VirtualTimes* out);
  /// Whether the waits that are issued from now on are marked, to be counted if they take time.
  void mark_waits(bool on) noexcept { marks_waits_ = on; }
  /// Waits for the fence; when it was done, in seconds. It must be among its stream's last
  /// `FenceRing::kSlots`.
  double time_of(const Fence&);

 private:
  friend class VirtualStream;
  void run_until(const std::function<bool()>& done);
  bool settle();
  void reached(const Fence&);
  double share_of(size_t stream) const;
  size_t owner_of(const Fence&) const;
  size_t holder_of(size_t stream) const;

  VirtualRates rates_;
  double now_ = 0;
  bool marks_waits_ = false;
  struct Asked {
    Fence fence;
    VirtualTimes* out;
  };
  std::vector<Asked> asked_;
  std::array<std::unique_ptr<VirtualStream>, kResources> streams_;
};

}  // namespace strata
