#include "cli/nvme_transfers.hpp"

#include <algorithm>
#include <chrono>

#include "offload/nvme/nvme_stream.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

/// Twice the depth in issue keeps the depth in flight.
size_t slots_of(const NvmeOptions& o) {
  const size_t requests = (o.unit_bytes + o.request_bytes - 1) / o.request_bytes;
  return 2 * std::max<size_t>((o.depth + requests - 1) / requests, 2);
}

}  // namespace

NvmeTransfers::NvmeTransfers(const NvmeOptions& o)
    : store_(o),
      memory_(allocate_pages(slots_of(o) * o.unit_bytes, "a measurement of NVMe")),
      fences_(slots_of(o)) {
  store_.add_memory({memory_.base(), memory_.bytes()});
}

double NvmeTransfers::measure(TransferMix mix, double seconds) {
  const auto start = Clock::now();
  uint64_t units = 0;
  for (; seconds_since(start) < seconds; ++units) {
    transfer(units % fences_.size(),
             mix == TransferMix::write || (mix == TransferMix::mixed && units % 2 == 1));
  }
  finish();
  return static_cast<double>(units * store_.options().unit_bytes) / seconds_since(start);
}

double NvmeTransfers::seconds_to_move(uint64_t reads, uint64_t writes, double least_seconds) {
  const uint64_t units = reads + writes;
  if (units == 0) return 0;
  const auto start = Clock::now();
  uint64_t rounds = 0, slot = 0;
  do {
    // The n-th is a write whenever the writes' share of the first n reaches a whole number.
    for (uint64_t n = 1; n <= units; ++n) {
      transfer(slot++ % fences_.size(), n * writes / units != (n - 1) * writes / units);
    }
    ++rounds;
  } while (seconds_since(start) < least_seconds);
  finish();
  return seconds_since(start) / static_cast<double>(rounds);
}

void NvmeTransfers::transfer(size_t slot, bool write) {
  const size_t block = store_.options().unit_bytes;
  const uint64_t units = store_.options().units;
  fences_[slot].wait_done();
  // Half a file apart, so that no unit is read while it is written.
  const uint64_t at = (next_++ + (write ? units / 2 : 0)) % units;
  std::byte* const unit = store_.base() + at * block;
  std::byte* const mine = memory_.base() + slot * block;
  NvmeStream& s = write ? store_.writer() : store_.reader();
  s.copy(write ? unit : mine, write ? mine : unit, block);
  fences_[slot] = s.record();
}

void NvmeTransfers::finish() {
  for (const Fence& f : fences_) f.wait_done();
  store_.reader().rethrow();
  store_.writer().rethrow();
}

}  // namespace strata
