// A stream as a FIFO with a thread of its own.
#pragma once
#include <array>
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
  StreamTimes times() const noexcept;
  /// The streams whose fences it may wait for: a wait is charged to whoever was at work meanwhile.
  /// While nothing is issued; null: to the stream that was waited for.
  using Streams = std::array<WorkerStream*, kResources>;
  void set_siblings(const Streams* all) noexcept { siblings_ = all; }
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
  /// `completes_later`: work is done some time after it ran; the derived class notes its times.
  WorkerStream(uint64_t delay_seed, uint32_t max_delay_microseconds, uint32_t first_record,
               bool completes_later = false);
  void start();
  /// Any thread. The first failure stays; later copies and launches are left out.
  void fail(std::exception_ptr) noexcept;

  // On the worker, in order; what they throw fails the stream.
  virtual void run_copy(const Copy&) = 0;
  virtual void run_launch(const Launch&) = 0;
  /// Completes the fence once everything before it is done; also after a failure.
  virtual void run_record(const Fence& fence, WorkLabel) { FenceRing::complete(fence); }

  /// Work that ran on this thread, or elsewhere for this stream; one call at a time.
  void note_worked(WorkLabel, double begin, double end) noexcept;
  /// The record that runs waited so long, until now, for others to leave the cores.
  void note_sharing(double seconds) noexcept;

 private:
  enum class Kind : uint8_t { wait, copy, launch, record, stop };
  /// Of the fence waited for.
  struct Wait {
    WorkLabel on_label;
    Resource on;
  };
  struct Record {
    std::atomic<uint32_t> sequence{0};
    Kind kind = Kind::stop;
    Fence fence;
    WorkLabel label = 0;
    union {
      Copy copy;
      Launch launch;
      Wait wait;
    };
    Record() : copy{} {}
  };
  static constexpr uint32_t kRecords = 2048;

  void do_wait(const Fence&) override;
  void do_copy(void* dst, const void* src, size_t bytes) override;
  void do_launch(KernelFn, const void* args, size_t arg_bytes, Cost) override;
  Fence do_record() override;

  /// Seconds that one thread adds to and any reads.
  class Sum {
   public:
    void add(double seconds) noexcept {
      nanoseconds_.fetch_add(static_cast<uint64_t>(seconds * 1e9), std::memory_order_relaxed);
    }
    double seconds() const noexcept {
      return static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) * 1e-9;
    }

   private:
    std::atomic<uint64_t> nanoseconds_{0};
  };

  Record& begin_push(Kind);
  void end_push(Record&);
  void work();
  void await(const Record&, uint32_t sequence);
  void execute(const Record&);
  void run_timed(const Record&);
  void run_wait(const Record&);
  using Waited = std::array<double, kResources>;
  /// What it waited for until now, the wait it is in included.
  Waited waited_until(double now) const noexcept;
  void charge(Resource on, double seconds, const Waited& before, const Waited& after) noexcept;
  bool times_itself(const Record&) const noexcept;
  void maybe_delay();

  uint64_t delay_state_;
  uint32_t max_delay_microseconds_;
  bool completes_later_;
  std::unique_ptr<Record[]> ring_;
  uint32_t first_record_;
  uint32_t head_;                       // next record to write; issuer only
  std::atomic<uint32_t> published_{0};  // bumped at each push; the worker sleeps on it
  FenceRing fences_;
  std::atomic<bool> failing_{false}, failed_{false};
  std::exception_ptr error_;
  std::array<Sum, kResources> waited_;
  std::atomic<double> waits_since_{0};  // 0: it does not wait
  std::atomic<Resource> waits_on_{Resource::compute};
  const Streams* siblings_ = nullptr;
  Sum idle_, sharing_, busy_;
  WorkLabel running_ = 0;  // the worker's
  std::thread worker_;
};

}  // namespace strata
