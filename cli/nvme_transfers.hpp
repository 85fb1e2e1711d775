// A store of its own, kept busy: how fast the NVMe tier transfers.
#pragma once
#include <vector>

#include "cli/fio.hpp"  // TransferMix
#include "offload/nvme/store.hpp"

namespace strata {

/// Transfers of whole units, and memory to move them from and to.
class NvmeTransfers {
 public:
  /// Throws what NvmeStore throws.
  explicit NvmeTransfers(const NvmeOptions&);

  const NvmeStore& store() const { return store_; }
  /// Bytes a second, read and written together, with twice the store's depth in issue.
  double measure(TransferMix, double seconds);
  /// Seconds in which so many units are read and so many written, evenly mixed: the mean of rounds
  /// without a pause, of at least so many seconds together.
  double seconds_to_move(uint64_t reads, uint64_t writes, double least_seconds);

 private:
  void transfer(size_t slot, bool write);
  void finish();

  NvmeStore store_;
  Arena memory_;
  std::vector<Fence> fences_;  // one for each slot of memory
  uint64_t next_ = 0;
};

}  // namespace strata
