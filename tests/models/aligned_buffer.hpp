// Memory at a 64-byte boundary, as the products want it.
#pragma once
#include <cstddef>
#include <memory>
#include <new>

namespace strata::testing {

struct AlignedFree {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using AlignedBuffer = std::unique_ptr<std::byte, AlignedFree>;

/// `slack` bytes more than asked for, so that nothing is an allocation of zero.
inline AlignedBuffer aligned_buffer(size_t bytes, size_t slack = 64) {
  return AlignedBuffer(
      static_cast<std::byte*>(::operator new (bytes + slack, std::align_val_t{64})));
}

}  // namespace strata::testing
