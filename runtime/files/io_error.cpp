#include "runtime/files/io_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace strata {
namespace {

const char* advice(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "; free space there, or give a smaller budget or another directory";
    case EIO: return "; the drive failed: look at the kernel's log, or use another drive";
    case EROFS:
    case EACCES:
    case EPERM: return "; give this user the right to do so, or choose another place";
    case ENOENT: return "; create it first, or check the path";
    case EMFILE:
    case ENFILE: return "; raise the limit of open files (ulimit -n)";
    default: return "";
  }
}

std::string why(int error) {
  if (error == 0) return "the file ends before that";
  return std::generic_category().message(error) + advice(error);
}

}  // namespace

IoError io_error(const char* verb, uint64_t bytes, uint64_t offset, const std::string& file,
                 int error) {
  return IoError(fmt::format("cannot {} {} bytes at offset {} of {}: {}", verb, bytes, offset, file,
                             why(error)));
}

IoError io_error(const char* verb, const std::string& file, int error) {
  return IoError(fmt::format("cannot {} {}: {}", verb, file, why(error)));
}

bool may_retry(int error) noexcept { return error == EINTR || error == EAGAIN; }

}  // namespace strata
