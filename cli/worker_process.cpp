#include "cli/worker_process.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "runtime/errors.hpp"

namespace strata {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<char*> environment_without(const std::vector<std::string>& drop) {
  std::vector<char*> out;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string_view entry(*e);
    const auto name = entry.substr(0, entry.find('='));
    if (std::find(drop.begin(), drop.end(), name) == drop.end()) out.push_back(*e);
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace

WorkerProcess::WorkerProcess(std::string name, const std::vector<std::string>& command,
                             const std::vector<std::string>& drop)
    : name_(std::move(name)) {
  auto [mine, theirs] = LineChannel::make_pair();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Also right when the descriptor is already kChannel: it then only stays open over exec.
  posix_spawn_file_actions_adddup2(&actions, theirs.fd(), kChannel);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  const auto arguments = pointers(command);
  const auto environment = environment_without(drop);
  const int error = posix_spawn(&pid_, arguments.front(), &actions, nullptr, arguments.data(),
                                environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    pid_ = -1;
    throw IoError(fmt::format("cannot start the {} worker from {}: {}", name_, command.front(),
                              std::strerror(error)));
  }
  channel_ = std::move(mine);
}

WorkerProcess::~WorkerProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string WorkerProcess::fate() {
  // It closed its channel; should it go on all the same, its end will not be waited for.
  constexpr auto kPatience = std::chrono::seconds(2);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  pid_t got = 0;
  while ((got = waitpid(pid_, &status, WNOHANG)) <= 0) {
    if (got < 0 && errno != EINTR) return "in an unknown way";
    if (std::chrono::steady_clock::now() > end) return "its channel but is still running";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("by signal {} ({}){}", signal, strsignal(signal),
                       signal == SIGKILL ? "; the system may have run out of memory" : "");
  }
  return fmt::format("with exit code {}", WEXITSTATUS(status));
}

void WorkerProcess::report_death() {
  throw IoError(fmt::format("the {} worker ended {}; what it said before is above", name_, fate()));
}

void WorkerProcess::send(std::string_view line) {
  if (!channel_.send(line)) report_death();
}

std::string WorkerProcess::receive(std::chrono::milliseconds limit) {
  std::optional<std::string> line;
  try {
    line = channel_.receive(limit);
  } catch (const IoError& e) {
    throw IoError(fmt::format("the {} worker (process {}): {}", name_, pid_, e.what()));
  }
  if (!line) report_death();
  return *line;
}

}  // namespace strata
