#include "runtime/backend.hpp"

#include <numeric>
#include <utility>

#include "runtime/errors.hpp"

namespace strata {

const char* name_of(Tier t) noexcept {
  constexpr const char* kNames[] = {"device", "host", "nvme"};
  return kNames[static_cast<size_t>(t)];
}

const char* name_of(Resource r) noexcept {
  constexpr const char* kNames[] = {"compute", "h2d", "d2h", "update", "nvme_read", "nvme_write"};
  return kNames[static_cast<size_t>(r)];
}

void Stream::wait(const Fence& fence) {
  if (!fence.enqueued()) {
    throw StateError(
        "a stream was asked to wait on a fence that is not enqueued; record the fence first, as "
        "CUDA ignores a wait on an unrecorded event");
  }
  do_wait(fence);
}

void Stream::copy(void* dst, const void* src, size_t bytes) {
  if (bytes != 0) do_copy(dst, src, bytes);
}

void Stream::launch(KernelFn fn, const void* args, size_t arg_bytes, Cost cost) {
  if (arg_bytes > kMaxArgs) {
    throw StateError("kernel arguments of " + std::to_string(arg_bytes) + " bytes exceed the " +
                     std::to_string(kMaxArgs) + " bytes a stream record holds");
  }
  do_launch(fn, args, arg_bytes, cost);
}

Fence Stream::record() {
  const Fence f = do_record();
  if (f.slot() != nullptr) {
    f.slot()->label = label_;
    f.slot()->stream = static_cast<uint8_t>(resource_);
  }
  return f;
}

void Stream::attach(Resource r, StreamObserver* observer) noexcept {
  resource_ = r;
  observer_ = observer;
}

double Backend::waited(Resource r) const {
  const auto on = stream_times(r).waited;
  return std::accumulate(on.begin(), on.end(), 0.0);
}

Arena& Arena::operator=(Arena&& o) noexcept {
  if (this != &o) {
    if (free_ != nullptr) free_(base_, bytes_, owner_);
    base_ = std::exchange(o.base_, nullptr);
    bytes_ = std::exchange(o.bytes_, 0);
    free_ = std::exchange(o.free_, nullptr);
    owner_ = std::exchange(o.owner_, nullptr);
  }
  return *this;
}

Arena::~Arena() {
  if (free_ != nullptr) free_(base_, bytes_, owner_);
}

}  // namespace strata
