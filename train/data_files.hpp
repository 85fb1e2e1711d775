// The files behind `--data`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strata {

/// Expands `--data` arguments in the order given: a file stands for itself, a directory for all
/// *.txt directly in it, anything else is a glob pattern (glob(3)); the last two sorted bytewise.
/// Throws ConfigError for a missing file, a pattern or directory without matches, something that
/// is not a regular file, and a file that comes twice: its copy in the last tenth would validate
/// on text that was trained on.
std::vector<std::string> resolve_data_files(std::span<const std::string> arguments);

/// Regular files read with pread as one byte stream, in order. Not mapped, not cached: what the
/// stream costs in memory is one descriptor a file.
class ConcatenatedFiles {
 public:
  /// Throws ConfigError when a file cannot be opened.
  explicit ConcatenatedFiles(std::span<const std::string> paths);
  ~ConcatenatedFiles();
  ConcatenatedFiles(ConcatenatedFiles&&) noexcept;
  ConcatenatedFiles(const ConcatenatedFiles&) = delete;
  ConcatenatedFiles& operator=(const ConcatenatedFiles&) = delete;

  struct File {
    std::string path;
    int descriptor;
    uint64_t first;  // offset in the stream
    uint64_t bytes;  // when it was opened
  };

  uint64_t bytes() const noexcept { return bytes_; }
  std::span<const File> files() const noexcept { return files_; }

  /// Reads `out.size()` bytes from offset `first`; the range lies within the stream. Throws IoError
  /// naming file and offset when a read fails or a file has become shorter.
  void read(uint64_t first, std::span<uint8_t> out) const;

 private:
  std::vector<File> files_;
  uint64_t bytes_ = 0;
};

}  // namespace strata
