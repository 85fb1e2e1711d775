#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "runtime/files/files.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {
namespace {

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
  int sync() override { return ::fsync(fd_) < 0 ? -errno : 0; }
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
};

}  // namespace

Files& real_files() {
  static RealFiles files;
  return files;
}

}  // namespace strata
