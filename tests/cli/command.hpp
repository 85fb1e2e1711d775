// Runs the `strata` command and keeps what it says.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/folder.hpp"

namespace strata {

struct CommandOutcome {
  int code = -1;  // negative: killed by that signal
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

/// Words of a command line, cut at spaces.
inline std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

/// A signal sent as soon as `when` says so; asked every millisecond.
struct Interruption {
  int signal = 0;
  std::function<bool()> when;
};

/// Runs `strata` with these arguments to its end.
inline CommandOutcome strata_command(const std::vector<std::string>& arguments,
                                     const Interruption& interruption = {},
                                     const std::function<void()>& before_exec = {}) {
  const Folder folder;
  const std::string out = folder.path("out"), err = folder.path("err");
  std::vector<char*> argv = {const_cast<char*>(STRATA_BINARY)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY, 0600), 1);
    ::dup2(::open(err.c_str(), O_CREAT | O_WRONLY, 0600), 2);
    if (before_exec) before_exec();
    ::execv(STRATA_BINARY, argv.data());
    ::_exit(127);
  }
  int status = 0;
  for (bool sent = interruption.signal == 0;;) {
    if (::waitpid(child, &status, sent ? 0 : WNOHANG) == child) break;
    if (!sent && (sent = interruption.when())) ::kill(child, interruption.signal);
    if (!sent) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), folder.read("out"),
          folder.read("err")};
}

inline CommandOutcome strata_command(const std::string& line, const Interruption& interruption = {},
                                     const std::function<void()>& before_exec = {}) {
  return strata_command(words(line), interruption, before_exec);
}

/// A refusal: this code, nothing on stdout, and one line on stderr that holds every part.
inline void expect_refused(const CommandOutcome& o, int code,
                           const std::vector<std::string>& parts) {
  EXPECT_EQ(o.code, code) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_EQ(o.err.rfind("error: ", 0), 0u) << o.err;
  EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << "one line: " << o.err;
  for (const std::string& part : parts) {
    EXPECT_NE(o.err.find(part), std::string::npos) << "no '" << part << "' in: " << o.err;
  }
}

/// Whether each key is there and holds a whole number.
inline void expect_bytes(const nlohmann::json& j, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    ASSERT_TRUE(j.contains(key)) << key << " is missing in " << j;
    EXPECT_TRUE(j[key].is_number_unsigned()) << key << " is not a whole number in " << j;
  }
}

}  // namespace strata
