// Denormals for the length of a kernel, whatever the calling thread had set.
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/thread_pool.hpp"

namespace strata::kernels {

/// Clears flush-to-zero on this thread and restores the caller's setting at the end: the calling
/// thread is one of the pool's workers, and it may belong to a host framework.
class IeeeScope {
 public:
#if defined(__x86_64__)
  IeeeScope() noexcept : saved_(_mm_getcsr()) { use_ieee_denormals(); }
  ~IeeeScope() { _mm_setcsr(saved_); }
#else
  IeeeScope() noexcept { use_ieee_denormals(); }
  ~IeeeScope() {}
#endif
  IeeeScope(const IeeeScope&) = delete;
  IeeeScope& operator=(const IeeeScope&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#endif
};

}  // namespace strata::kernels
