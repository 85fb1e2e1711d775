#include "runtime/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace strata {
namespace {

long futex(const std::atomic<uint32_t>& word, int op, uint32_t value) noexcept {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return syscall(SYS_futex, &word, op, value, nullptr, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen) noexcept {
  futex(word, FUTEX_WAIT_PRIVATE, seen);
}
void futex_wake_one(const std::atomic<uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE_PRIVATE, 1);
}
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace strata
