#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "runtime/files/files.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// What O_DIRECT transfers must be multiples of where nothing says otherwise.
constexpr size_t kBlock = 4096;

class PosixFile final : public File {
 public:
  PosixFile(std::string name, int fd) : File(std::move(name)), fd_(fd) {}
  ~PosixFile() override { ::close(fd_); }

  int64_t read(std::byte* to, size_t bytes, uint64_t offset) override {
    const ssize_t n = ::pread(fd_, to, bytes, static_cast<off_t>(offset));
    return n < 0 ? -errno : n;
  }
  int64_t write(const std::byte* from, size_t bytes, uint64_t offset) override {
    const ssize_t n = ::pwrite(fd_, from, bytes, static_cast<off_t>(offset));
    return n < 0 ? -errno : n;
  }
  int reserve(uint64_t bytes) override {
    while (::fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) < 0) {
      if (errno != EINTR) return -errno;
    }
    return 0;
  }
  int sync() override {
    if (::fsync(fd_) < 0) return -errno;
    // What nobody reads soon should not take memory from a run that budgets it.
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
  }
  int64_t size() override {
    struct stat s {};
    return ::fstat(fd_, &s) < 0 ? -errno : s.st_size;
  }
  int descriptor() const noexcept override { return fd_; }

 private:
  int fd_;
};

/// Opens a file that no directory lists, or gives -errno.
int open_unlinked(const std::string& directory, int flags) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR) return -errno;
  // A file system without O_TMPFILE: a name for a moment only.
  std::string path = directory + "/.strata-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -errno;
  ::unlink(path.c_str());
  // Asked for later, since a file system that refuses it would leave the name behind.
  if (flags != 0 && ::fcntl(named, F_SETFL, flags) < 0) {
    const int error = errno;
    ::close(named);
    return -error;
  }
  return named;
}

/// What direct transfers of a file opened for them must be multiples of; 0: they are not direct.
size_t direct_block(int fd) {
  struct statfs system {};
  // Memory, which takes O_DIRECT on newer kernels and means nothing by it.
  if (::fstatfs(fd, &system) == 0 &&
      (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
    return 0;
  }
#if defined(STATX_DIOALIGN)
  struct statx s {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) == 0 && (s.stx_mask & STATX_DIOALIGN)) {
    if (s.stx_dio_offset_align == 0) return 0;
    return std::max<size_t>({kBlock, s.stx_dio_mem_align, s.stx_dio_offset_align});
  }
#endif
  return kBlock;
}

class RealFiles final : public Files {
 public:
  ScratchFile open_scratch(const std::string& directory) override {
    int fd = open_unlinked(directory, O_DIRECT);
    const size_t block = fd >= 0 ? direct_block(fd) : 0;
    if (fd == -EINVAL) fd = open_unlinked(directory, 0);
    if (fd < 0) throw io_error("create a file in", directory, -fd);
    return {std::make_unique<PosixFile>("the unnamed file in " + directory, fd), block != 0,
            block != 0 ? block : kBlock};
  }

  uint64_t free_bytes(const std::string& path) override {
    struct statvfs s {};
    if (::statvfs(path.c_str(), &s) < 0) throw io_error("ask for the free space of", path, errno);
    return uint64_t{s.f_bavail} * s.f_frsize;
  }

  std::unique_ptr<File> open(const std::string& path) override {
    const int fd =
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // never waits for a FIFO
    if (fd < 0) throw io_error("open", path, errno);
    auto file = std::make_unique<PosixFile>(path, fd);
    struct stat s {};
    if (::fstat(fd, &s) < 0) throw io_error("look at", path, errno);
    if (!S_ISREG(s.st_mode)) throw IoError("cannot read " + path + ": it is not a regular file");
    return file;
  }

  std::unique_ptr<File> create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) throw io_error("create", path, errno);
    return std::make_unique<PosixFile>(path, fd);
  }

  void make_folder(const std::string& path) override {
    std::error_code error;
    std::vector<fs::path> above;  // of those that are made: where their names are kept
    for (fs::path p = fs::path(path).lexically_normal(); !p.empty() && !fs::exists(p, error);
         p = p.parent_path()) {
      above.push_back(p.has_parent_path() ? p.parent_path() : fs::path("."));
    }
    fs::create_directories(path, error);
    if (error) throw io_error("make the folder", path, error.value());
    if (!fs::is_directory(path, error)) throw io_error("make the folder", path, ENOTDIR);
    for (const fs::path& p : above) {
      // A folder that may not be listed cannot be opened to be synced.
      if (::access(p.c_str(), R_OK) == 0) sync_folder(p);
    }
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) < 0) {
      throw io_error(("rename to " + to).c_str(), from, errno);
    }
  }

  void sync_folder(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Some network file systems cannot sync a folder and keep its names safe without.
    const int error = fd < 0 ? errno : ::fsync(fd) < 0 && errno != EINVAL ? errno : 0;
    if (fd >= 0) ::close(fd);
    if (error != 0) throw io_error("sync the folder", path, error);
  }

  void remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw io_error("remove", path, error.value());
  }

  std::vector<std::string> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error && error.value() != ENOENT) throw io_error("list the folder", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

Files& real_files() {
  static RealFiles files;
  return files;
}

}  // namespace strata
