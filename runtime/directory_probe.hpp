// What is behind a directory: its file system, and the drives that hold it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"

namespace strata {

/// A drive. Nothing, or empty: unknown.
struct Drive {
  std::string name;  ///< the kernel's, e.g. nvme0n1
  std::string model;
  std::optional<bool> rotational;

  bool operator==(const Drive&) const = default;
};

/// The drives that a block device, `major:minor`, is on: that of a partition, all those under a
/// volume or an array; none when they are unknown. `sys`: where the sys file system is.
std::vector<Drive> probe_drives(const std::string& device, const std::string& sys = "/sys");

/// Nothing, or empty: unknown.
struct DirectoryFacts {
  std::string path;     ///< as given
  std::string problem;  ///< why no scratch file can be made and written here; empty: it can
  std::string filesystem;
  std::string device;  ///< of the file system, `major:minor`
  std::optional<bool> read_only;
  std::optional<bool> direct;  ///< whether transfers go past the page cache
  std::optional<size_t> block;
  std::optional<uint64_t> free_bytes;
  std::vector<Drive> drives;

  /// Whether it is memory that looks like a file system.
  bool is_memory() const;
  /// Nothing when one of the drives does not say, and no other does.
  std::optional<bool> rotational() const;
};

/// Makes a scratch file in the directory, writes to it and lets it go. Never throws for what the
/// directory is.
DirectoryFacts probe_directory(const std::string& path, Files& = real_files());

}  // namespace strata
