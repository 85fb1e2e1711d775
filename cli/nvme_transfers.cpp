#include "cli/nvme_transfers.hpp"

#include <chrono>
#include <vector>

#include "offload/nvme/nvme_stream.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

/// Twice the depth in issue keeps the depth in flight.
size_t slots_of(const NvmeOptions& o) { return size_t{2} * o.depth; }

}  // namespace

NvmeTransfers::NvmeTransfers(const NvmeOptions& o)
    : store_(o), memory_(allocate_pages(slots_of(o) * o.unit_bytes, "a measurement of NVMe")) {
  store_.add_memory({memory_.base(), memory_.bytes()});
}

double NvmeTransfers::measure(TransferMix mix, double seconds) {
  const size_t block = store_.options().unit_bytes;
  const uint64_t units = store_.options().units;
  const auto start = Clock::now();
  uint64_t bytes = 0;
  std::vector<Fence> fences(slots_of(store_.options()));
  for (uint64_t i = 0; seconds_since(start) < seconds; ++i) {
    const size_t slot = i % fences.size();
    fences[slot].wait_done();
    const bool write = mix == TransferMix::write || (mix == TransferMix::mixed && i % 2 == 1);
    // Half a file apart, so that no unit is read while it is written.
    const uint64_t at = (next_++ + (write ? units / 2 : 0)) % units;
    std::byte* const unit = store_.base() + at * block;
    std::byte* const mine = memory_.base() + slot * block;
    NvmeStream& s = write ? store_.writer() : store_.reader();
    s.copy(write ? unit : mine, write ? mine : unit, block);
    fences[slot] = s.record();
    bytes += block;
  }
  for (const Fence& f : fences) f.wait_done();
  store_.reader().rethrow();
  store_.writer().rethrow();
  return static_cast<double>(bytes) / seconds_since(start);
}

}  // namespace strata
