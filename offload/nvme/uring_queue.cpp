#include <fmt/format.h>
#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "offload/nvme/io_queue.hpp"
#include "offload/nvme/uring_buffers.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr int kMostTries = 1000;

IoError uring_error(const char* verb, int error) {
  return IoError(
      fmt::format("cannot {} io_uring: {}; use the threads engine, or allow io_uring (sysctl "
                  "kernel.io_uring_disabled, the container's seccomp profile, ulimit -n and -l)",
                  verb, std::generic_category().message(error)));
}

bool may_pass(int error) noexcept {
  return error == EINTR || error == EAGAIN || error == EBUSY || error == ENOMEM;
}

/// A ring with the files registered.
class Ring {
 public:
  Ring(const std::vector<File*>& files, uint32_t entries) {
    const int error = io_uring_queue_init(entries, &ring_, 0);
    if (error < 0) throw uring_error("set up", -error);
    std::vector<int> descriptors;
    descriptors.reserve(files.size());
    for (const File* f : files) descriptors.push_back(f->descriptor());
    const int registered = files.empty()
                               ? 0
                               : io_uring_register_files(&ring_, descriptors.data(),
                                                         static_cast<unsigned>(files.size()));
    if (registered == 0) return;
    io_uring_queue_exit(&ring_);
    throw uring_error("register files with", -registered);
  }
  ~Ring() {
    // The kernel takes a ring down in its own time; until then it would keep the files' space.
    io_uring_unregister_files(&ring_);
    io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  io_uring* get() noexcept { return &ring_; }

 private:
  io_uring ring_{};
};

/// The submitter writes the submission ring, one thread of our own reads the completion ring; the
/// two share nothing but the kernel.
class UringQueue final : public IoQueue {
 public:
  UringQueue(const std::vector<File*>& files, uint32_t depth, size_t buffer_bytes, IoSink& sink)
      : sink_(sink),
        slots_(depth),
        entries_(depth),
        ring_(files, depth + 1),
        buffers_(*ring_.get(), buffer_bytes) {
    reaper_ = std::thread([this] { reap(); });
  }

  ~UringQueue() override {
    io_uring_sqe* sqe;
    while ((sqe = io_uring_get_sqe(ring_.get())) == nullptr) push();
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, kStop);
    while (push() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    reaper_.join();
  }

  void submit(std::span<const IoRequest> requests) noexcept override {
    for (size_t i = 0; i < requests.size(); ++i) {
      const IoRequest& r = requests[i];
      io_uring_sqe* sqe;
      while ((sqe = io_uring_get_sqe(ring_.get())) == nullptr) push();
      const auto file = static_cast<int>(r.file);
      const int buffer = buffers_.find(r.data, r.bytes);
      if (buffer >= 0) {
        (r.write ? io_uring_prep_write_fixed(sqe, file, r.data, r.bytes, r.offset, buffer)
                 : io_uring_prep_read_fixed(sqe, file, r.data, r.bytes, r.offset, buffer));
      } else if (r.write) {
        io_uring_prep_write(sqe, file, r.data, r.bytes, r.offset);
      } else {
        io_uring_prep_read(sqe, file, r.data, r.bytes, r.offset);
      }
      sqe->flags |= IOSQE_FIXED_FILE;
      io_uring_sqe_set_data64(sqe, r.tag);
      entries_[i] = sqe;
      slots_[r.tag].request = r;
      slots_[r.tag].filled.store(true, std::memory_order_release);
    }
    const int error = push();
    if (error == 0) return;
    // What the kernel did not take becomes nothing, and fails here.
    const size_t left = std::min<size_t>(io_uring_sq_ready(ring_.get()), requests.size());
    for (size_t i = requests.size() - left; i < requests.size(); ++i) {
      io_uring_prep_nop(entries_[i]);
      entries_[i]->flags = 0;
      io_uring_sqe_set_data64(entries_[i], kNothing);
    }
    for (const IoRequest& r : requests.last(left)) sink_.completed(r, -error);
  }

  std::string add_memory(std::span<std::byte> memory) override { return buffers_.add(memory); }
  void remove_memory(std::span<std::byte> memory) noexcept override { buffers_.remove(memory); }

 private:
  static constexpr uint64_t kStop = UINT64_MAX, kNothing = UINT64_MAX - 1;
  struct Slot {
    IoRequest request;
    std::atomic<bool> filled{false};
  };

  /// Hands all entries to the kernel; 0, or the errno it stays with.
  int push() noexcept {
    for (int tries = 0; io_uring_sq_ready(ring_.get()) != 0;) {
      const int n = io_uring_submit(ring_.get());
      if (n > 0) continue;
      if (n < 0 && !may_pass(-n)) return -n;
      if (++tries > kMostTries) return n < 0 ? -n : EAGAIN;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 0;
  }

  void reap() noexcept {
    for (;;) {
      io_uring_cqe* cqe = nullptr;
      const int error = io_uring_wait_cqe(ring_.get(), &cqe);
      if (error < 0) {
        if (error != -EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const uint64_t slot = cqe->user_data;
      const int64_t result = cqe->res;
      io_uring_cqe_seen(ring_.get(), cqe);
      if (slot == kStop) return;
      if (slot == kNothing) continue;
      // The kernel orders this after `submit`; the flag says so to ThreadSanitizer too.
      slots_[slot].filled.load(std::memory_order_acquire);
      const IoRequest request = slots_[slot].request;
      sink_.completed(request, result);
    }
  }

  IoSink& sink_;
  std::vector<Slot> slots_;
  std::vector<io_uring_sqe*> entries_;  // of one `submit`
  Ring ring_;
  UringBuffers buffers_;
  std::thread reaper_;
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(const std::vector<File*>& files, uint32_t depth,
                                          size_t buffer_bytes, IoSink& sink) {
  return std::make_unique<UringQueue>(files, depth, buffer_bytes, sink);
}

std::string why_no_uring() {
  try {
    Ring ring({}, 2);
    io_uring_probe* const probe = io_uring_get_probe_ring(ring.get());
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                       io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
    if (probe != nullptr) io_uring_free_probe(probe);
    return reads ? "" : "this kernel's io_uring has no plain reads and writes";
  } catch (const IoError& e) {
    return e.what();
  }
}

}  // namespace strata
