// The one thread pool: compute, updates and host copies take it in turn.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace strata {

/// Runs loops over `threads` threads, the calling one among them. Calls from different threads take
/// turns (`Turn`); a call inside a loop body is an error. Results never depend on which thread runs
/// an index: bodies must write disjoint outputs.
class ThreadPool {
 public:
  using Body = void (*)(void* context, uint32_t index, uint32_t worker);

  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t threads() const noexcept;

  /// Calls body(context, i, worker) once for every i in [0, count); worker < threads(). Indices are
  /// taken dynamically in ascending order. The caller must hold the turn.
  void run(uint32_t count, Body body, void* context);

  /// As `run`, for a callable `f(index)` or `f(index, worker)`.
  template <class F>
  void parallel_for(uint32_t count, F&& f) {
    run(
        count,
        [](void* context, uint32_t index, uint32_t worker) {
          auto& fn = *static_cast<std::remove_reference_t<F>*>(context);
          if constexpr (std::is_invocable_v<F&, uint32_t, uint32_t>) {
            fn(index, worker);
          } else {
            fn(index);
          }
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// Exclusive use of the pool, first come first served.
  class Turn {
   public:
    explicit Turn(ThreadPool&);
    /// `waited`: seconds until it was this one's turn, 0 where it was at once.
    Turn(ThreadPool&, double& waited);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    bool try_begin(uint32_t ticket) const noexcept;
    void begin(uint32_t ticket) const noexcept;

    ThreadPool& pool_;
  };

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What kernels of the host backend receive as `native`. The stream holds the pool's turn while a
/// kernel runs: a kernel must not take another.
struct HostContext {
  ThreadPool& pool;
};

/// Clears flush-to-zero and denormals-are-zero for this thread; bits must not depend on what a
/// caller left in MXCSR.
void use_ieee_denormals() noexcept;

}  // namespace strata
