#include "cli/worker_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "runtime/errors.hpp"

namespace strata {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong(30);

WorkerProcess shell(const std::string& script, const std::vector<std::string>& drop = {}) {
  return WorkerProcess("test", {"/bin/sh", "-c", script}, drop);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const IoError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(WorkerProcess, AnswersLinesAndSleepsInBetween) {
  WorkerProcess w = shell("while read -r line <&3; do echo \"got $line\" >&3; done");
  for (const char* word : {"one", "two words", ""}) {
    w.send(word);
    EXPECT_EQ(w.receive(kLong), std::string("got ") + word);
  }
}

TEST(WorkerProcess, KeepsLinesThatArriveTogether) {
  WorkerProcess w = shell("printf 'a\\nb\\nc' >&3; read -r line <&3; echo d >&3");
  EXPECT_EQ(w.receive(kLong), "a");
  EXPECT_EQ(w.receive(kLong), "b");
  w.send("go");
  EXPECT_EQ(w.receive(kLong), "cd");
}

TEST(WorkerProcess, SaysHowTheWorkerEnded) {
  WorkerProcess exits = shell("exit 7");
  expect_has(message_of([&] { exits.receive(kLong); }), "test worker ended with exit code 7");
  WorkerProcess killed = shell("read -r line <&3; kill -9 $$");
  killed.send("go");
  const std::string message = message_of([&] { killed.receive(kLong); });
  expect_has(message, "by signal 9");
  expect_has(message, "out of memory");
}

TEST(WorkerProcess, SendingToADeadWorkerIsAnErrorNotASignal) {
  WorkerProcess w = shell("exit 3");
  EXPECT_THROW(w.receive(kLong), IoError);
  WorkerProcess other = shell("exec 3>&-; exit 4");
  std::string message;
  for (int i = 0; i < 1000 && message.find("exit code 4") == std::string::npos; ++i) {
    message = message_of([&] { other.send("go"); });
  }
  expect_has(message, "ended with exit code 4");
}

TEST(WorkerProcess, ASilentWorkerIsGivenUp) {
  WorkerProcess w = shell("read -r line <&3");
  expect_has(message_of([&] { w.receive(milliseconds(20)); }), "no answer within 0.02 s");
}

TEST(WorkerProcess, AProgramThatIsNotThereIsAnError) {
  const std::string message = message_of([] { WorkerProcess("test", {"/no/such/program"}); });
  expect_has(message, "cannot start the test worker from /no/such/program");
}

TEST(WorkerProcess, EndsWithItsOwner) {
  pid_t pid = -1;
  {
    WorkerProcess w = shell("trap '' TERM INT; echo ready >&3; exec sleep 100");
    EXPECT_EQ(w.receive(kLong), "ready");
    pid = w.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(LineChannel, IsNotInheritedByOtherWorkers) {
  // Or a worker would hold the parent's end of another, which then never sees the parent go.
  const auto [one, other] = LineChannel::make_pair();
  EXPECT_NE(fcntl(one.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(other.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(LineChannel, AnEndThatIsGoneIsAnAnswerNotASignal) {
  auto [one, other] = LineChannel::make_pair();
  other.close();
  EXPECT_FALSE(one.send("go"));
  EXPECT_EQ(one.receive(kLong), std::nullopt);
}

TEST(WorkerProcess, StdoutOfAWorkerIsStderr) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  {
    WorkerProcess w = shell("echo noise; echo done >&3");
    EXPECT_EQ(w.receive(kLong), "done");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "noise\n");
}

TEST(WorkerProcess, DropsTheVariablesNamed) {
  setenv("STRATA_TEST_DROPPED", "1", 1);
  setenv("STRATA_TEST_KEPT", "2", 1);
  WorkerProcess w =
      shell("echo \"[$STRATA_TEST_DROPPED][$STRATA_TEST_KEPT]\" >&3", {"STRATA_TEST_DROPPED"});
  EXPECT_EQ(w.receive(kLong), "[][2]");
}

}  // namespace
}  // namespace strata
