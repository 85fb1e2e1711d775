// Faults between an I/O queue and the stream that uses it: the same for every engine.
#pragma once
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "offload/nvme/store.hpp"

namespace strata::testing {

enum class FaultKind { none, short_transfer, empty_transfer, eagain, eio, enospc, flip, hang };

/// The `nth` transfer of a direction (from 1, those of the first writing count) goes wrong.
struct Fault {
  FaultKind kind = FaultKind::none;
  bool on_write = false;
  int nth = 1;
  /// Ends a hang.
  std::atomic<bool> released{false};
  std::atomic<int> seen{0};
};

class FaultySink final : public IoSink {
 public:
  FaultySink(IoSink& inner, Fault& fault) : inner_(inner), fault_(fault) {}

  void completed(const IoRequest& r, int64_t result) noexcept override {
    if (r.write == fault_.on_write && ++fault_.seen == fault_.nth) result = spoil(r, result);
    inner_.completed(r, result);
  }

  static std::unique_ptr<IoSink> wrap(IoSink& inner, void* fault) {
    return std::make_unique<FaultySink>(inner, *static_cast<Fault*>(fault));
  }

 private:
  int64_t spoil(const IoRequest& r, int64_t result) const {
    switch (fault_.kind) {
      case FaultKind::none: return result;
      case FaultKind::short_transfer:
        // What was not transferred holds something else.
        if (!r.write) {
          for (uint32_t i = r.bytes / 2; i < r.bytes; ++i) r.data[i] = std::byte{0xee};
        }
        return r.bytes / 2;
      case FaultKind::empty_transfer: return 0;
      case FaultKind::eagain: return -EAGAIN;
      case FaultKind::eio: return -EIO;
      case FaultKind::enospc: return -ENOSPC;
      case FaultKind::flip: r.data[r.bytes / 3] ^= std::byte{0x10}; return result;
      case FaultKind::hang:
        while (!fault_.released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return result;
    }
    return result;
  }

  IoSink& inner_;
  Fault& fault_;
};

}  // namespace strata::testing
