// One direction of the NVMe tier as a stream.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "offload/nvme/io_queue.hpp"
#include "offload/nvme/store.hpp"
#include "runtime/host/worker_stream.hpp"

namespace strata {

class NvmeStream final : public WorkerStream, private IoSink {
 public:
  enum class Direction : uint8_t { read, write };
  NvmeStream(NvmeStore&, Direction, WrapSink, void* wrap_context);
  ~NvmeStream() override;

  uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  /// Nothing is in flight.
  bool idle() const noexcept;
  /// Fails the stream if a transfer has been in flight for longer than the store's limit.
  void check_age();
  /// See IoQueue.
  std::string add_memory(std::span<std::byte> m) { return queue_->add_memory(m); }
  void remove_memory(std::span<std::byte> m) noexcept { queue_->remove_memory(m); }

 private:
  using Clock = std::chrono::steady_clock;
  /// A transfer in flight: a piece of a unit.
  struct Slot {
    std::atomic<bool> busy{false};
    std::atomic<int64_t> started{0};  // nanoseconds of the clock
    std::atomic<uint32_t> unit{0}, piece{0}, entry{0};
    uintptr_t target = 0;  // the worker's
  };
  /// Transfers and fences in issue order: a fence completes when all before it are done.
  struct Entry {
    bool done = false, is_fence = false;
    Fence fence;
    WorkLabel label = 0;
    double began = 0;  // of the first transfer since the fence before; 0: there was none
  };
  static constexpr uint32_t kEntries = 4096;

  void run_copy(const Copy&) override;
  void run_launch(const Launch&) override;
  void run_record(const Fence&, WorkLabel) override;
  void completed(const IoRequest&, int64_t result) noexcept override;

  void wait_for_writers_of(uintptr_t target) noexcept;
  uint32_t free_slot() noexcept;
  uint32_t wait_for_slot() noexcept;
  uint32_t take_entry(const Fence*, WorkLabel = 0) noexcept;
  /// Does the rest of a transfer that came back short or is to be tried again.
  void finish(const IoRequest&, int64_t result);
  void check_content(const IoRequest&, const Slot&);
  void retire(uint32_t entry) noexcept;
  void leave() noexcept;

  NvmeStore& store_;
  Direction direction_;
  std::vector<Slot> slots_;
  std::unique_ptr<Entry[]> entries_;
  std::atomic<uint32_t> head_{0};   // next entry; the worker's
  std::mutex retiring_;             // entries leave one at a time
  bool abandoned_ = false;          // a transfer hangs
  std::atomic<uint32_t> tail_{0};   // first entry that has not left
  std::atomic<uint32_t> freed_{0};  // bumped as slots come free; the worker sleeps on it
  std::atomic<uint64_t> bytes_{0};
  std::vector<IoRequest> batch_;
  double began_ = 0;      // of the first transfer since the last fence; the worker's
  double last_left_ = 0;  // when a fence left; under `retiring_`
  std::unique_ptr<IoSink> wrapped_;
  std::unique_ptr<IoQueue> queue_;
};

}  // namespace strata
