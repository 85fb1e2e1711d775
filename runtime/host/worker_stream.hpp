// A stream as a FIFO with a thread of its own.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "runtime/backend.hpp"

namespace strata {

/// Records live in a ring; the issuer writes at one end, the worker reads at the other. Each slot
/// has its own sequence word, so reusing a slot orders the issuer only after that slot's old
/// record. A derived class says what a copy and a launch do; it calls `start` when it is ready and
/// `stop` in its destructor.
class WorkerStream : public Stream {
 public:
  /// Rethrows on the issuer what a record threw.
  void rethrow();
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// Time the worker spent in waits for fences that were not done.
  double waited_seconds() const noexcept {
    return static_cast<double>(waited_nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
  }
  /// As `record`, also after a failure: memory must outlive the worker all the same.
  Fence record_always();
  /// Runs what is queued and ends the worker; the fences stay valid.
  void stop() noexcept;

 protected:
  struct Copy {
    void* dst;
    const void* src;
    size_t bytes;
  };
  struct Launch {
    KernelFn fn;
    alignas(16) std::byte args[kMaxArgs];
  };

  /// `delay_seed` not 0: the worker sleeps at random points. `first_record`: where the 32-bit count
  /// of records starts; tests begin shortly before it wraps.
  WorkerStream(uint64_t delay_seed, uint32_t max_delay_microseconds, uint32_t first_record);
  void start();
  /// Any thread. The first failure stays; later copies and launches are left out.
  void fail(std::exception_ptr) noexcept;

  // On the worker, in order; what they throw fails the stream.
  virtual void run_copy(const Copy&) = 0;
  virtual void run_launch(const Launch&) = 0;
  /// Completes the fence once everything before it is done; also after a failure.
  virtual void run_record(const Fence& fence) { FenceRing::complete(fence); }

 private:
  enum class Kind : uint8_t { wait, copy, launch, record, stop };
  struct Record {
    std::atomic<uint32_t> sequence{0};
    Kind kind = Kind::stop;
    Fence fence;
    union {
      Copy copy;
      Launch launch;
    };
    Record() : copy{} {}
  };
  static constexpr uint32_t kRecords = 2048;

  void do_wait(const Fence&) override;
  void do_copy(void* dst, const void* src, size_t bytes) override;
  void do_launch(KernelFn, const void* args, size_t arg_bytes, Cost) override;
  Fence do_record() override;

  Record& begin_push();
  void end_push(Record&);
  void work();
  void execute(const Record&);
  void run_wait(const Fence&);
  void maybe_delay();

  uint64_t delay_state_;
  uint32_t max_delay_microseconds_;
  std::unique_ptr<Record[]> ring_;
  uint32_t first_record_;
  uint32_t head_;                       // next record to write; issuer only
  std::atomic<uint32_t> published_{0};  // bumped at each push; the worker sleeps on it
  FenceRing fences_;
  std::atomic<bool> failing_{false}, failed_{false};
  std::exception_ptr error_;
  std::atomic<uint64_t> waited_nanoseconds_{0};
  std::thread worker_;
};

}  // namespace strata
