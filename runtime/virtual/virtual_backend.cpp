#include "runtime/virtual/virtual_backend.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "runtime/errors.hpp"

namespace strata {

class VirtualStream final : public Stream {
 public:
  VirtualStream(VirtualBackend& backend, double flops_rate, double byte_rate, double latency,
                uint64_t seed)
      : backend_(backend),
        flops_rate_(flops_rate),
        byte_rate_(byte_rate),
        latency_(latency),
        random_(seed) {}

  double clock() const { return clock_; }
  double busy() const { return busy_; }
  double waited() const { return waited_; }

 private:
  void do_wait(const Fence& f) override {
    if (f.slot() == nullptr) return;
    // A reused slot belongs to a later fence; the earlier one was done long before.
    if (f.slot()->word.load(std::memory_order_relaxed) >> 2 != f.generation()) return;
    // An idle stream meets the wait when it is issued.
    const double from = std::max(clock_, backend_.issuer_now_);
    waited_ += std::max(0.0, f.slot()->time - from);
    clock_ = std::max(clock_, f.slot()->time);
  }
  void do_copy(void*, const void*, size_t bytes) override { advance({0, bytes}); }
  void do_launch(KernelFn, const void*, size_t, Cost c) override { advance(c); }
  Fence do_record() override {
    const Fence f = fences_.acquire();
    f.slot()->time = clock_;
    FenceRing::mark_done(f);
    return f;
  }

  void advance(Cost c) {
    double seconds = latency_ + static_cast<double>(c.bytes) / byte_rate_;
    if (flops_rate_ > 0) seconds += static_cast<double>(c.flops) / flops_rate_;
    if (random_ != 0) {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      seconds *= static_cast<double>(random_ >> 40) / (1 << 21);
    }
    clock_ = std::max(clock_, backend_.issuer_now_) + seconds;
    busy_ += seconds;
  }

  VirtualBackend& backend_;
  double flops_rate_, byte_rate_, latency_;
  uint64_t random_;
  double clock_ = 0, busy_ = 0, waited_ = 0;
  FenceRing fences_;
};

VirtualBackend::VirtualBackend(const VirtualRates& r) {
  const std::array<double, kResources> flops = {r.flops_per_second};
  const std::array<double, kResources> bytes = {
      r.memory_bytes_per_second, r.h2d_bytes_per_second,       r.d2h_bytes_per_second,
      r.memory_bytes_per_second, r.nvme_read_bytes_per_second, r.nvme_write_bytes_per_second};
  for (size_t i = 0; i < kResources; ++i) {
    const uint64_t seed = r.delay_seed == 0 ? 0 : (r.delay_seed * 0x9e3779b97f4a7c15u) ^ (i + 1);
    streams_[i] =
        std::make_unique<VirtualStream>(*this, flops[i], bytes[i], r.latency_seconds, seed);
  }
}

VirtualBackend::~VirtualBackend() = default;

Stream& VirtualBackend::stream(Resource r) { return *streams_[static_cast<size_t>(r)]; }

Arena VirtualBackend::allocate(Tier, size_t bytes) {
  if (bytes == 0) return {};
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("no address range of that size for a virtual arena");
  return {static_cast<std::byte*>(p), bytes, [](std::byte* b, size_t n) { munmap(b, n); }};
}

void VirtualBackend::wait(const Fence& f) {
  if (f.slot() != nullptr && f.slot()->word.load() >> 2 == f.generation()) {
    issuer_now_ = std::max(issuer_now_, f.slot()->time);
  }
}

void VirtualBackend::drain() {
  for (const auto& s : streams_) issuer_now_ = std::max(issuer_now_, s->clock());
}

double VirtualBackend::end_of(Resource r) const {
  return streams_[static_cast<size_t>(r)]->clock();
}
double VirtualBackend::waited(Resource r) const {
  return streams_[static_cast<size_t>(r)]->waited();
}
double VirtualBackend::busy(Resource r) const { return streams_[static_cast<size_t>(r)]->busy(); }

}  // namespace strata
