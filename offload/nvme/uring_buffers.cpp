#include "offload/nvme/uring_buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace strata {
namespace {

/// The kernel's limit is 16384; with 1 GiB each there is more than enough for any machine.
constexpr size_t kSlots = 4096;

}  // namespace

UringBuffers::~UringBuffers() {
  // The kernel takes a ring down in its own time; until then it would keep the memory.
  if (has_table_) io_uring_unregister_buffers(&ring_);
}

std::string UringBuffers::add(std::span<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  const auto refused = [&](int error) {
    const char* const advice =
        error == ENOMEM   ? "; raise the limit of locked memory (ulimit -l) to twice the budgets"
        : error == EINVAL ? "; it takes a kernel from 5.19 on"
                          : "";
    return fmt::format("cannot register memory with io_uring: {}{}",
                       std::generic_category().message(error), advice);
  };
  if (!has_table_) {
    const int error = io_uring_register_buffers_sparse(&ring_, kSlots);
    if (error < 0) return refused(-error);
    has_table_ = true;
  }
  for (size_t at = 0; at < memory.size(); at += buffer_bytes_) {
    const auto buffer = memory.subspan(at, std::min(buffer_bytes_, memory.size() - at));
    const auto free = std::ranges::find_if(buffers_, [](auto b) { return b.empty(); });
    const auto slot = static_cast<size_t>(free - buffers_.begin());
    if (slot == kSlots) return refused(ENOSPC);
    if (free == buffers_.end()) buffers_.emplace_back();
    const int error = set(slot, buffer);
    if (error < 0) return refused(-error);
    buffers_[slot] = buffer;
  }
  return {};
}

void UringBuffers::remove(std::span<std::byte> memory) noexcept {
  const std::lock_guard lock(mutex_);
  for (size_t slot = 0; slot < buffers_.size(); ++slot) {
    std::span<std::byte>& b = buffers_[slot];
    if (b.empty() || b.data() < memory.data() || b.data() >= memory.data() + memory.size()) {
      continue;
    }
    // Even if the kernel does not let go of it, nothing uses it any more.
    b = {};
    set(slot, {});
  }
}

int UringBuffers::find(const std::byte* data, size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (size_t slot = 0; slot < buffers_.size(); ++slot) {
    const std::span<std::byte> b = buffers_[slot];
    if (data >= b.data() && data + bytes <= b.data() + b.size()) return static_cast<int>(slot);
  }
  return -1;
}

int UringBuffers::set(size_t slot, std::span<std::byte> buffer) noexcept {
  const iovec vector = {buffer.data(), buffer.size()};
  const __u64 tag = 0;
  const int n =
      io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(slot), &vector, &tag, 1);
  return std::min(n, 0);
}

}  // namespace strata
