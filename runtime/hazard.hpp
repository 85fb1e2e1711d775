// Who may touch a piece of memory when: the last write and the last reads since, per stream.
#pragma once
#include <array>

#include "runtime/backend.hpp"

namespace strata {

/// Kept for each unit and each small shared record. Issuer thread only. Because a hazard stays with
/// the memory and not with what it holds, it also makes granting a unit at issue safe: the new user
/// waits for whatever the old one still has in flight.
class Hazard {
 public:
  /// Makes `stream` wait for the last write.
  void order_read(Stream& stream, Resource on) const {
    if (writer_ != on) stream.wait(write_);
  }
  /// Makes `stream` wait for the last write and all reads since.
  void order_write(Stream& stream, Resource on) const {
    order_read(stream, on);
    for (size_t r = 0; r < kResources; ++r) {
      if (static_cast<Resource>(r) != on) stream.wait(reads_[r]);
    }
  }
  void did_read(Resource on, const Fence& fence) { reads_[static_cast<size_t>(on)] = fence; }
  void did_write(Resource on, const Fence& fence) {
    reads_ = {};
    write_ = fence;
    writer_ = on;
  }
  const Fence& last_write() const noexcept { return write_; }

 private:
  Fence write_;
  Resource writer_ = Resource::compute;
  std::array<Fence, kResources> reads_{};
};

}  // namespace strata
