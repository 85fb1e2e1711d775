// Temporary directories and units of known content for tests of the NVMe tier.
#pragma once
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "offload/nvme/nvme_stream.hpp"
#include "offload/nvme/store.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata::testing {

/// Directories that go with their content.
class TemporaryDirectories {
 public:
  explicit TemporaryDirectories(
      size_t count, const std::string& parent = std::filesystem::temp_directory_path()) {
    for (size_t i = 0; i < count; ++i) {
      std::string path = parent + "/strata-nvme-XXXXXX";
      if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp in " + parent);
      paths_.push_back(path);
    }
  }
  ~TemporaryDirectories() {
    for (const std::string& p : paths_) std::filesystem::remove_all(p);
  }
  const std::vector<std::string>& paths() const { return paths_; }
  bool empty() const {
    for (const std::string& p : paths_) {
      if (!std::filesystem::is_empty(p)) return false;
    }
    return true;
  }

 private:
  std::vector<std::string> paths_;
};

/// A store with memory for each of its units beside it.
struct NvmeRig {
  explicit NvmeRig(const NvmeOptions& o, WrapSink wrap = nullptr, void* context = nullptr)
      : memory(allocate_pages(o.units * o.unit_bytes, "test")),
        store(o, real_files(), wrap, context) {}

  std::byte* unit(uint32_t u) const { return store.base() + u * store.options().unit_bytes; }
  std::byte* mine(uint32_t u) const { return memory.base() + u * store.options().unit_bytes; }
  void write(uint32_t u) { store.writer().copy(unit(u), mine(u), store.options().unit_bytes); }
  void read(uint32_t u) { store.reader().copy(mine(u), unit(u), store.options().unit_bytes); }
  /// Content that differs from unit to unit and from version to version.
  void fill(uint32_t u, uint32_t version) const {
    uint64_t x = (uint64_t{version} << 32 | u) * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < store.options().unit_bytes; i += sizeof x) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      std::memcpy(mine(u) + i, &x, sizeof x);
    }
  }
  std::vector<std::byte> content(uint32_t u) const {
    return {mine(u), mine(u) + store.options().unit_bytes};
  }
  void clear(uint32_t u) const { std::memset(mine(u), 0x5a, store.options().unit_bytes); }
  void finish(NvmeStream& s) {
    s.record_always().wait_done();
    s.rethrow();
  }

  Arena memory;  // outlives all transfers
  NvmeStore store;
};

}  // namespace strata::testing
