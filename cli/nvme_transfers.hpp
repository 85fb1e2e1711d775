// A store of its own, kept busy: how fast the NVMe tier transfers.
#pragma once
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

 private:
  NvmeStore store_;
  Arena memory_;
  uint64_t next_ = 0;
};

}  // namespace strata
