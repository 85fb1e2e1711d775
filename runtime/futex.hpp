// Waiting on one 32-bit word. std::atomic::wait goes through a table shared by unrelated words,
// whose counters would order threads that the program did not order, and hide a missing fence wait
// from ThreadSanitizer; a bare futex orders nothing.
#pragma once
#include <atomic>
#include <cstdint>

namespace strata {

/// Sleeps while `word` holds `seen`; may wake early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen) noexcept;
void futex_wake_one(const std::atomic<uint32_t>& word) noexcept;
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept;

/// Tells the processor that this thread spins.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace strata
