// Lines of text between two processes.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace strata {

/// One end of a socket pair; owns it.
class LineChannel {
 public:
  LineChannel() = default;
  explicit LineChannel(int fd) : fd_(fd) {}
  ~LineChannel() { close(); }
  LineChannel(LineChannel&& o) noexcept
      : fd_(std::exchange(o.fd_, -1)), received_(std::move(o.received_)) {}
  LineChannel& operator=(LineChannel&& o) noexcept {
    std::swap(fd_, o.fd_);
    std::swap(received_, o.received_);
    return *this;
  }
  LineChannel(const LineChannel&) = delete;

  /// Two connected ends, closed on exec. Throws IoError.
  static std::pair<LineChannel, LineChannel> make_pair();

  int fd() const noexcept { return fd_; }
  void close() noexcept;

  /// Sends `line`, which holds no newline, and one. False when the other end is gone.
  bool send(std::string_view line);

  /// Sleeps until a whole line is there, and returns it without its newline; nothing when the other
  /// end is gone. Throws IoError after `limit`.
  std::optional<std::string> receive(std::chrono::milliseconds limit);
  /// As above, without limit.
  std::optional<std::string> receive() { return receive(std::chrono::milliseconds(-1)); }

 private:
  int fd_ = -1;
  std::string received_;
};

}  // namespace strata
