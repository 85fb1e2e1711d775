// Memory that a ring knows: its pages are mapped once, not for each request.
#pragma once
#include <liburing.h>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace strata {

/// A request is inside one buffer or goes without.
class UringBuffers {
 public:
  UringBuffers(io_uring& ring, size_t buffer_bytes) : ring_(ring), buffer_bytes_(buffer_bytes) {}
  ~UringBuffers();
  UringBuffers(const UringBuffers&) = delete;
  UringBuffers& operator=(const UringBuffers&) = delete;

  /// See IoQueue. What was added before the system refused stays.
  std::string add(std::span<std::byte>);
  void remove(std::span<std::byte>) noexcept;
  /// The buffer that holds all of it, or -1.
  int find(const std::byte* data, size_t bytes) noexcept;

 private:
  /// 0, or -errno. An empty buffer frees the slot.
  int set(size_t slot, std::span<std::byte> buffer) noexcept;

  io_uring& ring_;
  size_t buffer_bytes_;
  std::mutex mutex_;
  bool has_table_ = false;
  std::vector<std::span<std::byte>> buffers_;  // by slot of the ring's table; empty: free
};

}  // namespace strata
