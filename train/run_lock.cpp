#include "train/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/files/io_error.hpp"

namespace strata {

RunLock::RunLock(const std::string& folder) {
  const std::string path = folder + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw io_error("create", path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(descriptor_);
  if (error == EWOULDBLOCK) {
    throw ConfigError("another run is using " + folder +
                      "; wait for it, or name another folder with --out");
  }
  // Some network file systems have no locks; then nobody is kept out.
  if (error != ENOLCK && error != EOPNOTSUPP) throw io_error("lock", path, error);
  descriptor_ = -1;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace strata
