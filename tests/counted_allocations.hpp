// Counts every operator new of a program. It replaces the operators, so that only one source file
// of a program may include it.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>

namespace strata {

/// Of this thread.
inline thread_local uint64_t allocations = 0;

inline void* counted(void* p) {
  ++allocations;
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace strata

// Not inlined: the compiler would see malloc meet delete.
[[gnu::noinline]] void* operator new(size_t n) {
  return strata::counted(std::malloc(n == 0 ? 1 : n));
}
// std::stable_sort asks this way; a sanitizer must not see its own `new` meet our `delete`.
[[gnu::noinline]] void* operator new(size_t n, const std::nothrow_t&) noexcept {
  ++strata::allocations;
  return std::malloc(n == 0 ? 1 : n);
}
[[gnu::noinline]] void* operator new(size_t n, std::align_val_t align) {
  const auto a = static_cast<size_t>(align);
  return strata::counted(std::aligned_alloc(a, (n + a - 1) / a * a));
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
