// Files as the rest of the library sees them: thin, so that tests can make any call fail.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace strata {

/// An open file. Calls report a failure as `-errno`, as the operating system names it, and may move
/// fewer bytes than asked; `io_error` turns what is left of a failure into an error.
class File {
 public:
  explicit File(std::string name) : name_(std::move(name)) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// What messages call it.
  const std::string& name() const noexcept { return name_; }
  /// Bytes read from `offset` on, 0 at the end of the file, or -errno.
  virtual int64_t read(std::byte* to, size_t bytes, uint64_t offset) = 0;
  /// Bytes written, or -errno.
  virtual int64_t write(const std::byte* from, size_t bytes, uint64_t offset) = 0;
  /// Reserves disk space for the first `bytes`. 0, or -errno.
  virtual int reserve(uint64_t bytes) = 0;
  /// 0 once everything written is on the drive, or -errno. The page cache lets go of it.
  virtual int sync() = 0;
  /// Bytes of the file, or -errno.
  virtual int64_t size() = 0;
  /// The operating system's descriptor, for asynchronous engines.
  virtual int descriptor() const noexcept = 0;

 private:
  std::string name_;
};

/// A file without a name, gone when it is closed or the process ends.
struct ScratchFile {
  std::unique_ptr<File> file;
  /// Transfers go past the page cache; their addresses, offsets and sizes must then be multiples of
  /// `block`.
  bool direct = false;
  size_t block = 4096;
};

/// A file system. `real_files()` is the operating system's.
class Files {
 public:
  virtual ~Files() = default;
  /// A new scratch file in a directory, past the page cache where the file system can. Throws
  /// IoError.
  virtual ScratchFile open_scratch(const std::string& directory) = 0;
  /// Bytes that may still be written to the file system of a path. Throws IoError.
  virtual uint64_t free_bytes(const std::string& path) = 0;

  /// A regular file, to be read. Throws IoError.
  virtual std::unique_ptr<File> open(const std::string& path) = 0;
  /// A new file, to be written; there must be none of that name. Throws IoError.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  /// With all folders above it; nothing when it is there. Throws IoError.
  virtual void make_folder(const std::string& path) = 0;
  /// Takes the place of a file `to`, or of an empty folder, at once. Throws IoError.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Returns once the names in a folder are on the drive. Throws IoError.
  virtual void sync_folder(const std::string& path) = 0;
  /// A file, or a folder with all in it; nothing when it is not there. Throws IoError.
  virtual void remove(const std::string& path) = 0;
  /// Names in a folder, sorted; none when there is no such folder. Throws IoError.
  virtual std::vector<std::string> list(const std::string& path) = 0;
};
Files& real_files();

}  // namespace strata
