// A child process that works on request and sleeps in between.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/line_channel.hpp"

namespace strata {

/// Starts a program that talks lines on descriptor `kChannel`. Its stdout goes to our stderr. It
/// sees the end of its channel when this process ends in any way.
class WorkerProcess {
 public:
  static constexpr int kChannel = 3;

  /// `command` is a path and its arguments; `name` is for messages. `drop` names environment
  /// variables that the worker does not get. Throws IoError.
  WorkerProcess(std::string name, const std::vector<std::string>& command,
                const std::vector<std::string>& drop = {});
  /// Kills the worker when it still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  const std::string& name() const noexcept { return name_; }
  pid_t pid() const noexcept { return pid_; }

  /// Sends one line. Throws IoError when the worker has died, saying how.
  void send(std::string_view line);
  /// The worker's next line. Throws IoError when it died first, saying how, or after `limit`.
  std::string receive(std::chrono::milliseconds limit);

 private:
  /// "exit code 1", "signal 9 (Killed)": waits for the worker, which closed its channel.
  std::string fate();
  [[noreturn]] void report_death();

  std::string name_;
  pid_t pid_ = -1;
  LineChannel channel_;
};

}  // namespace strata
