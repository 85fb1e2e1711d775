// What ThreadSanitizer is told.
#pragma once
#include <cstddef>

namespace strata {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

}  // namespace strata

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* address, unsigned long bytes);
extern "C" void __tsan_write_range(void* address, unsigned long bytes);
#endif

namespace strata {

// ThreadSanitizer does not see what the kernel does to memory during an asynchronous transfer.
inline void note_kernel_reads([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_read_range(data, bytes);
#endif
}
inline void note_kernel_wrote([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) noexcept {
#if defined(__SANITIZE_THREAD__)
  __tsan_write_range(data, bytes);
#endif
}

}  // namespace strata
