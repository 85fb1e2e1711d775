#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "offload/nvme/io_queue.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

/// Threads beyond these gain nothing on the drives there are.
constexpr uint32_t kMostThreads = 16;

class ThreadQueue final : public IoQueue {
 public:
  ThreadQueue(std::vector<File*> files, uint32_t depth, IoSink& sink)
      : files_(std::move(files)), sink_(sink), ring_(depth) {
    try {
      for (uint32_t i = 0; i < std::min(depth, kMostThreads); ++i) {
        threads_.emplace_back([this] { work(); });
      }
    } catch (const std::system_error& e) {
      stop();
      throw IoError(std::string("cannot start threads for the NVMe tier's transfers: ") + e.what() +
                    "; raise the limit of processes (ulimit -u)");
    }
  }

  ~ThreadQueue() override { stop(); }

  void submit(std::span<const IoRequest> requests) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      for (const IoRequest& r : requests) ring_[head_++ % ring_.size()] = r;
    }
    if (requests.size() == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
  }

 private:
  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void work() noexcept {
    for (;;) {
      IoRequest r;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || head_ != tail_; });
        if (head_ == tail_) return;
        r = ring_[tail_++ % ring_.size()];
      }
      File& file = *files_[r.file];
      sink_.completed(r, r.write ? file.write(r.data, r.bytes, r.offset)
                                 : file.read(r.data, r.bytes, r.offset));
    }
  }

  std::vector<File*> files_;
  IoSink& sink_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<IoRequest> ring_;  // no more than the depth wait
  uint64_t head_ = 0, tail_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(std::vector<File*> files, uint32_t depth, IoSink& sink) {
  return std::make_unique<ThreadQueue>(std::move(files), depth, sink);
}

}  // namespace strata
