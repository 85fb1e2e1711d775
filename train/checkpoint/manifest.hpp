// What a checkpoint says of itself: `manifest.json`, written last.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata {

/// A part of a logical tensor's plane in one of the checkpoint's files. Nothing of chunks, tiers or
/// policies is in it.
struct CheckpointTensor {
  std::string tensor;  // the parameter's name
  std::string plane;   // weight, remainder, m or v
  std::string file;
  std::string key;  // the name in that file
  /// Elements [first, first + elems) of the tensor, in row-major order.
  uint64_t first = 0, elems = 0;
  /// XXH3 of its bytes.
  uint64_t hash = 0;
};

struct Manifest {
  static constexpr uint32_t kFormat = 2;

  /// Training steps done; the data position follows from it, since samples have global indices.
  uint64_t step = 0;
  uint64_t tokens = 0;
  std::string model;
  std::string numerics_key;
  /// Flags and values the run was started with, in order; those that may come again, do.
  std::vector<std::pair<std::string, std::string>> flags;
  struct FileEntry {
    std::string name;
    uint64_t bytes = 0;
    /// Of what comes before the tensors' bytes: their names, types, shapes and places.
    uint64_t header_bytes = 0, header_hash = 0;  // XXH3
  };
  std::vector<FileEntry> files;
  std::vector<CheckpointTensor> tensors;

  const CheckpointTensor* find(const std::string& tensor, const std::string& plane) const;
};

/// JSON, with a hash of the rest as its last key.
std::string to_text(const Manifest&);
/// Throws ConfigError naming `where` and what is wrong, also for a format that is newer.
Manifest parse_manifest(const std::string& text, const std::string& where);

/// What differs between two numerics keys, as "batch: 8 there, 4 here; ..."; empty: nothing.
std::string describe_key_difference(const std::string& there, const std::string& here);

}  // namespace strata
