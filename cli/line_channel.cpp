#include "cli/line_channel.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "runtime/errors.hpp"

namespace strata {
namespace {

IoError failed(const char* what) {
  return IoError(fmt::format("worker channel: cannot {}: {}", what, std::strerror(errno)));
}

bool is_gone() noexcept { return errno == EPIPE || errno == ECONNRESET; }

}  // namespace

std::pair<LineChannel, LineChannel> LineChannel::make_pair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw failed("open it");
  return {LineChannel(fds[0]), LineChannel(fds[1])};
}

void LineChannel::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool LineChannel::send(std::string_view line) {
  std::string text(line);
  text += '\n';
  for (size_t sent = 0; sent < text.size();) {
    // No signal: a dead worker is an answer, not the end of this process.
    const ssize_t n = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && is_gone()) return false;
    if (n < 0 && errno != EINTR) throw failed("write to it");
    if (n > 0) sent += static_cast<size_t>(n);
  }
  return true;
}

std::optional<std::string> LineChannel::receive(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + limit;
  for (;;) {
    if (const size_t newline = received_.find('\n'); newline != std::string::npos) {
      std::string line = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      return line;
    }
    int wait = -1;
    if (limit.count() >= 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left < 0) throw IoError(fmt::format("no answer within {} s", limit.count() / 1000.0));
      wait = static_cast<int>(std::min<int64_t>(left, INT_MAX));
    }
    pollfd p{fd_, POLLIN, 0};
    const int ready = poll(&p, 1, wait);
    if (ready < 0 && errno != EINTR) throw failed("wait for it");
    if (ready <= 0) continue;
    char block[4096];
    const ssize_t n = read(fd_, block, sizeof block);
    if (n == 0 || (n < 0 && is_gone())) return std::nullopt;
    if (n < 0 && errno != EINTR) throw failed("read from it");
    if (n > 0) received_.append(block, static_cast<size_t>(n));
  }
}

}  // namespace strata
