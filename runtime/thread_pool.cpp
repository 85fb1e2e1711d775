#include "runtime/thread_pool.hpp"

#include <atomic>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/futex.hpp"
#include "runtime/sanitizer.hpp"

namespace strata {

void use_ieee_denormals() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kFtzDaz = 0x8040;
  _mm_setcsr(_mm_getcsr() & ~kFtzDaz);
#endif
}

namespace {

/// Spins before sleeping: a loop is often followed by the next within this many pauses.
constexpr int kSpins = 2000;

thread_local bool inside_loop = false;

struct InsideLoop {
  InsideLoop() noexcept { inside_loop = true; }
  ~InsideLoop() { inside_loop = false; }
  InsideLoop(const InsideLoop&) = delete;
  InsideLoop& operator=(const InsideLoop&) = delete;
};

// Taking turns must not order one stream's memory accesses after another's when ThreadSanitizer
// watches, or a missing fence wait could not show up; elsewhere the turn is an ordinary lock.
constexpr auto kTurnAcquire =
    kThreadSanitizer ? std::memory_order_relaxed : std::memory_order_acquire;
constexpr auto kTurnRelease =
    kThreadSanitizer ? std::memory_order_relaxed : std::memory_order_release;

}  // namespace

struct ThreadPool::State {
  explicit State(uint32_t n) : threads(n) {}

  uint32_t threads;
  // One job at a time. `epoch` publishes the job; `left` is the number of workers still in it.
  std::atomic<uint32_t> epoch{0};
  std::atomic<uint32_t> left{0};
  std::atomic<uint32_t> next{0};
  std::atomic<bool> stop{false};
  // Atomic because two streams' threads write them in turn (see `kTurn*`); `epoch` orders them.
  std::atomic<uint32_t> count{0};
  std::atomic<Body> body{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<std::thread> workers;
  // Ticket lock; see `kTurnAcquire`.
  std::atomic<uint32_t> ticket{0};
  std::atomic<uint32_t> serving{0};

  void take(uint32_t worker) {
    const uint32_t n = count.load(std::memory_order_relaxed);
    const Body fn = body.load(std::memory_order_relaxed);
    void* const ctx = context.load(std::memory_order_relaxed);
    const InsideLoop inside;
    try {
      for (uint32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) fn(ctx, i, worker);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
      next.store(n, std::memory_order_relaxed);
    }
  }

  void work(uint32_t worker) {
    use_ieee_denormals();
    uint32_t seen = 0;
    for (;;) {
      int spin = 0;
      uint32_t now = epoch.load(std::memory_order_acquire);
      while (now == seen) {
        if (++spin < kSpins) {
          cpu_relax();
        } else {
          futex_wait(epoch, seen);
        }
        now = epoch.load(std::memory_order_acquire);
      }
      seen = now;
      if (stop.load(std::memory_order_relaxed)) return;
      take(worker);
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) futex_wake_one(left);
    }
  }

  void publish() {
    epoch.fetch_add(1, std::memory_order_release);
    futex_wake_all(epoch);
  }

  void end() noexcept {
    stop.store(true, std::memory_order_relaxed);
    publish();
    for (auto& t : workers) t.join();
  }
};

ThreadPool::ThreadPool(uint32_t threads) : state_(std::make_unique<State>(threads)) {
  if (threads == 0) throw ConfigError("a thread pool needs at least one thread");
  try {
    for (uint32_t w = 1; w < threads; ++w) {
      state_->workers.emplace_back([s = state_.get(), w] { s->work(w); });
    }
  } catch (const std::system_error& e) {
    const auto started = state_->workers.size() + 1;
    state_->end();
    throw IoError("the operating system let a pool of " + std::to_string(threads) +
                  " threads have " + std::to_string(started) + " (" + e.what() +
                  "); use fewer threads");
  }
}

ThreadPool::~ThreadPool() { state_->end(); }

uint32_t ThreadPool::threads() const noexcept { return state_->threads; }

void ThreadPool::run(uint32_t count, Body body, void* context) {
  State& s = *state_;
  if (inside_loop) throw StateError("parallel_for was called inside a parallel_for body");
  if (s.threads == 1 || count <= 1) {
    const InsideLoop inside;
    for (uint32_t i = 0; i < count; ++i) body(context, i, 0);
    return;
  }
  s.count.store(count, std::memory_order_relaxed);
  s.body.store(body, std::memory_order_relaxed);
  s.context.store(context, std::memory_order_relaxed);
  s.next.store(0, std::memory_order_relaxed);
  s.left.store(s.threads - 1, std::memory_order_relaxed);
  s.publish();
  s.take(0);
  int spin = 0;
  for (uint32_t left; (left = s.left.load(std::memory_order_acquire)) != 0;) {
    if (++spin < kSpins) {
      cpu_relax();
    } else {
      futex_wait(s.left, left);
    }
  }
  if (s.failed.exchange(false)) std::rethrow_exception(std::exchange(s.error, nullptr));
}

ThreadPool::Turn::Turn(ThreadPool& pool) : pool_(pool) {
  begin(pool.state_->ticket.fetch_add(1, std::memory_order_relaxed));
}

ThreadPool::Turn::Turn(ThreadPool& pool, double& waited) : pool_(pool) {
  const uint32_t mine = pool.state_->ticket.fetch_add(1, std::memory_order_relaxed);
  waited = 0;
  if (try_begin(mine)) return;
  const double start = seconds_now();
  begin(mine);
  waited = seconds_now() - start;
}

bool ThreadPool::Turn::try_begin(uint32_t ticket) const noexcept {
  return pool_.state_->serving.load(kTurnAcquire) == ticket;
}

void ThreadPool::Turn::begin(uint32_t ticket) const noexcept {
  State& s = *pool_.state_;
  int spin = 0;
  for (uint32_t now; (now = s.serving.load(kTurnAcquire)) != ticket;) {
    if (++spin < kSpins) {
      cpu_relax();
    } else {
      futex_wait(s.serving, now);
    }
  }
}

ThreadPool::Turn::~Turn() {
  State& s = *pool_.state_;
  s.serving.fetch_add(1, kTurnRelease);
  futex_wake_all(s.serving);
}

}  // namespace strata
