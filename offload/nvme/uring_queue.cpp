#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "offload/nvme/io_queue.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {
namespace {

/// The submitter writes the submission ring, one thread of our own reads the completion ring; the
/// two share nothing but the kernel.
class UringQueue final : public IoQueue {
 public:
  UringQueue(const std::vector<File*>& files, uint32_t depth, IoSink& sink)
      : sink_(sink), slots_(depth) {
    const int error = io_uring_queue_init(depth + 1, &ring_, 0);
    if (error < 0) throw io_error("set up", "io_uring", -error);
    std::vector<int> descriptors;
    for (const File* f : files) descriptors.push_back(f->descriptor());
    const int registered =
        io_uring_register_files(&ring_, descriptors.data(), static_cast<unsigned>(files.size()));
    if (registered < 0) {
      io_uring_queue_exit(&ring_);
      throw io_error("register files with", "io_uring", -registered);
    }
    reaper_ = std::thread([this] { reap(); });
  }

  ~UringQueue() override {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kStop);
    io_uring_submit(&ring_);
    reaper_.join();
    io_uring_queue_exit(&ring_);
  }

  void submit(std::span<const IoRequest> requests) override {
    for (const IoRequest& r : requests) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
      if (sqe == nullptr) throw StateError("more requests in flight than the I/O queue's depth");
      if (r.write) {
        io_uring_prep_write(sqe, static_cast<int>(r.file), r.data, r.bytes, r.offset);
      } else {
        io_uring_prep_read(sqe, static_cast<int>(r.file), r.data, r.bytes, r.offset);
      }
      sqe->flags |= IOSQE_FIXED_FILE;
      io_uring_sqe_set_data64(sqe, r.tag);
      slots_[r.tag].request = r;
      slots_[r.tag].filled.store(true, std::memory_order_release);
    }
    for (int error; (error = io_uring_submit(&ring_)) < 0;) {
      if (may_retry(-error) || error == -EBUSY) {
        std::this_thread::yield();
        continue;
      }
      throw io_error("submit to", "io_uring", -error);
    }
  }

 private:
  static constexpr uint64_t kStop = UINT64_MAX;
  struct Slot {
    IoRequest request;
    std::atomic<bool> filled{false};
  };

  void reap() noexcept {
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      if (io_uring_wait_cqe(&ring_, &cqe) < 0) continue;  // interrupted
      const uint64_t slot = cqe->user_data;
      const int64_t result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      if (slot == kStop) return;
      // The kernel orders this after `submit`; the flag says so to ThreadSanitizer too.
      slots_[slot].filled.load(std::memory_order_acquire);
      const IoRequest request = slots_[slot].request;
      sink_.completed(request, result);
    }
  }

  IoSink& sink_;
  std::vector<Slot> slots_;
  io_uring ring_{};
  std::thread reaper_;
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(std::vector<File*> files, uint32_t depth, IoSink& sink) {
  return std::make_unique<UringQueue>(files, depth, sink);
}

std::string why_no_uring() {
  io_uring ring{};
  const int error = io_uring_queue_init(2, &ring, 0);
  if (error < 0) return std::strerror(-error);
  io_uring_queue_exit(&ring);
  return {};
}

}  // namespace strata
