// The bytes of the files behind `--data`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"

namespace strata {

/// Files one after the other as a stream of bytes, read when asked for: neither mapped nor cached,
/// so that it takes one descriptor a file and a hash per block. Each file is scanned once at the
/// start; whatever is read later must be what the scan saw. For one thread at a time.
class DataStream {
 public:
  static constexpr size_t kBlock = size_t{1} << 16;

  struct Part {
    std::unique_ptr<File> file;
    uint64_t bytes;                // of the file when it was opened, header included
    uint64_t first;                // offset in the stream of what follows the header
    std::vector<uint64_t> hashes;  // of each block of the file, after the scan
  };

  /// Opens all files and leaves out the first `header` bytes of each. `what` is what messages call
  /// the bytes. Throws ConfigError when there is no file or one cannot be opened.
  DataStream(Files& files, std::span<const std::string> paths, std::string what, size_t header = 0);

  /// Without headers.
  uint64_t bytes() const noexcept { return bytes_; }
  std::span<const Part> parts() const noexcept { return parts_; }

  /// Reads a file from its start, remembers hashes and passes on all that follows the header, in
  /// pieces of at most a block. Throws IoError like `read`, and whatever `use` throws.
  void scan(size_t part, const std::function<void(std::span<const uint8_t>)>& use);

  /// Reads `out.size()` bytes from offset `first` without allocating; the range lies within the
  /// stream. Throws IoError naming file and offset when a read fails, a file has become shorter, or
  /// a block is not what the scan saw.
  void read(uint64_t first, std::span<uint8_t> out);

 private:
  /// Into the buffer.
  std::span<const uint8_t> load(const Part& part, uint64_t offset);
  void check(const Part& part, uint64_t offset, std::span<const uint8_t> block) const;

  std::string what_;
  size_t header_;
  std::vector<Part> parts_;
  uint64_t bytes_ = 0;
  std::vector<uint8_t> buffer_;  // a block
};

}  // namespace strata
