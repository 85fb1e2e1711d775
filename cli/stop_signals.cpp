#include "cli/stop_signals.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

namespace strata {
namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");

extern "C" void note_signal(int signal) {
  received_signal.store(signal, std::memory_order_relaxed);
  constexpr std::string_view kText =
      "\nstopping after this step, and saving; once more stops at once, without saving\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText.data(), kText.size());
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  const auto set = [this](int signal, const struct sigaction& to) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) return;
    ::sigaction(signal, &to, nullptr);
    earlier_.emplace_back(signal, before);
  };
  for (const int s : kSignals) set(s, action);
  for (const int s : {SIGPIPE, SIGXFSZ}) set(s, ignore);
}

StopSignals::~StopSignals() {
  for (const auto& [signal, action] : earlier_) ::sigaction(signal, &action, nullptr);
}

int StopSignals::received() noexcept { return received_signal.load(std::memory_order_relaxed); }

}  // namespace strata
