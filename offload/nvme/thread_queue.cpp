#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "offload/nvme/io_queue.hpp"

namespace strata {
namespace {

/// Threads beyond these gain nothing on the drives there are.
constexpr uint32_t kMostThreads = 16;

class ThreadQueue final : public IoQueue {
 public:
  ThreadQueue(std::vector<File*> files, uint32_t depth, IoSink& sink)
      : files_(std::move(files)), sink_(sink) {
    for (uint32_t i = 0; i < std::clamp(depth, 1u, kMostThreads); ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void submit(std::span<const IoRequest> requests) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), requests.begin(), requests.end());
    }
    if (requests.size() == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
  }

 private:
  void work() noexcept {
    for (;;) {
      IoRequest r;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        r = waiting_.front();
        waiting_.pop_front();
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
  std::deque<IoRequest> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(std::vector<File*> files, uint32_t depth, IoSink& sink) {
  return std::make_unique<ThreadQueue>(std::move(files), depth, sink);
}

}  // namespace strata
