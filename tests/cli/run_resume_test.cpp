// Stopping, dying and going on, as a user sees it.
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>

#include "tests/cli/command.hpp"
#include "tests/sanitized.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

class RunResume : public ::testing::Test {
 protected:
  static constexpr uint64_t kSteps = 60;

  void SetUp() override {
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    data_ = folder_.write("text.txt", text);
    fs::create_directories(folder_.path("drive"));
  }

  std::string train_line(const std::string& out, const std::string& flags = "") const {
    return "train --model gpt2:L5,D32,H2,V256,T16 --batch 2 --threads 1 --steps 60 --host-mem 1GiB "
           "--device-mem 1GiB --data " +
           data_ + " --out " + folder_.path(out) + " " + flags;
  }
  /// What a step is to the last bit, by step; each is there once, in order.
  std::map<uint64_t, std::string> losses(const std::string& out) const {
    std::map<uint64_t, std::string> all;
    std::istringstream lines(folder_.read(out + "/metrics.jsonl"));
    uint64_t last = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto j = nlohmann::json::parse(line);
      EXPECT_EQ(j["step"], ++last);
      all[last] = j["loss"].dump() + " " + j["grad_norm"].dump() +
                  (j.contains("validation_loss") ? " " + j["validation_loss"].dump() : "");
    }
    return all;
  }
  std::vector<std::string> checkpoints(const std::string& out) const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& e : fs::directory_iterator(folder_.path(out + "/checkpoints"), error)) {
      const std::string name = e.path().filename().string();
      if (name.starts_with("step-")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  /// When a run has written its n-th step.
  std::function<bool()> after_step(const std::string& out, size_t n) const {
    return [this, out, n] {
      const std::string text = folder_.read(out + "/metrics.jsonl");
      return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= n;
    };
  }
  const std::map<uint64_t, std::string>& uninterrupted() {
    if (whole_.empty()) {
      EXPECT_EQ(strata_command(train_line("whole")).code, 0);
      whole_ = losses("whole");
      EXPECT_EQ(whole_.size(), kSteps);
    }
    return whole_;
  }
  std::string resume_line(const std::string& out, const std::string& flags = "") const {
    return "resume " + folder_.path(out) + " " + flags;
  }
  std::string elsewhere() const {
    return "--host-mem 0 --device-mem 1GiB --chunk-size 16KiB --recompute block --threads 2 "
           "--nvme " +
           folder_.path("drive");
  }

  Folder folder_;
  std::string data_;
  std::map<uint64_t, std::string> whole_;
};

TEST_F(RunResume, ASignalSavesAndTheRunGoesOnExactly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string out = "run" + std::to_string(signal);
    const CommandOutcome o =
        strata_command(train_line(out, "--json"), {signal, after_step(out, 5)});
    ASSERT_EQ(o.code, 75) << o.err;
    EXPECT_NE(o.err.find("go on with: strata resume " + folder_.path(out)), std::string::npos);
    EXPECT_EQ(o.json()["stopped"], true);
    const uint64_t done = o.json()["steps"];
    EXPECT_GE(done, 5u);
    EXPECT_LT(done, kSteps);
    EXPECT_EQ(losses(out).size(), done);
    EXPECT_EQ(checkpoints(out).size(), 1u);
    const CommandOutcome rest = strata_command(resume_line(out, elsewhere() + " --json"));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_EQ(rest.json()["steps"], kSteps);
    EXPECT_EQ(losses(out), uninterrupted());
    EXPECT_EQ(checkpoints(out).back(), "step-00000060");
  }
}

TEST_F(RunResume, TimeEndsARunWhichAutoGoesOnWith) {
  int runs = 0;
  for (int code = 75; code == 75 && runs < 500; ++runs) {
    const CommandOutcome o =
        strata_command(train_line("run", "--resume auto --max-time 0.1 --keep-last 1"));
    code = o.code;
    ASSERT_TRUE(code == 75 || code == 0) << o.err;
    EXPECT_EQ(checkpoints("run").size(), 1u);
  }
  EXPECT_GT(runs, 1);
  EXPECT_EQ(losses("run"), uninterrupted());
}

/// STRATA_KILLS instants, few by default: at any of them nothing is lost but steps since the newest
/// checkpoint, and nothing stays behind.
TEST_F(RunResume, KilledAtAnyInstantTheNewestCheckpointGoesOnExactly) {
  const char* const wanted = std::getenv("STRATA_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : kSanitized ? 2 : 6;
  std::mt19937_64 random(7);
  const std::string saving = " --checkpoint-every 2 --keep-last 2 ";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(strata_command(train_line("timed", saving)).code, 0);
  const auto whole = std::chrono::steady_clock::now() - begin;
  int killed = 0, went_on = 0;
  for (int k = 0; k < kills; ++k) {
    const std::string out = "run" + std::to_string(k);
    const auto at =
        std::chrono::steady_clock::now() + whole * static_cast<int>(random() % 1000) / 1000;
    const std::string flags = saving + (k % 2 != 0 ? elsewhere() : "");
    const CommandOutcome o = strata_command(
        k % 2 == 0 ? train_line(out, flags)
                   : "train --model gpt2:L5,D32,H2,V256,T16 --batch 2 --steps 60 --data " + data_ +
                         " --out " + folder_.path(out) + " " + flags,
        {SIGKILL, [at] { return std::chrono::steady_clock::now() >= at; }});
    if (o.code == 0) continue;  // it was faster than usual
    ASSERT_EQ(o.code, -SIGKILL) << o.err;
    ++killed;
    EXPECT_TRUE(fs::is_empty(folder_.path("drive"))) << "a file is left on the drive";
    std::string lines = folder_.read(out + "/metrics.jsonl");
    const auto steps = static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
    if (checkpoints(out).empty()) {
      EXPECT_LE(steps, 3u) << "there was none after step 2";
      continue;
    }
    const uint64_t newest = std::stoull(checkpoints(out).back().substr(5));
    EXPECT_LE(steps, newest + 3) << "of step " << newest;
    const CommandOutcome rest =
        strata_command(resume_line(out, k % 4 < 2 ? elsewhere() : "--policy resident --json"));
    ASSERT_EQ(rest.code, 0) << rest.err << rest.out;
    EXPECT_EQ(losses(out), uninterrupted()) << "killed after step " << steps;
    for (const auto& e : fs::directory_iterator(folder_.path(out + "/checkpoints"))) {
      EXPECT_NE(e.path().filename().string().substr(0, 1), ".") << "a half-written one is left";
    }
    ++went_on;
  }
  EXPECT_GT(killed, 0);
  EXPECT_GT(went_on, 0);
}

TEST_F(RunResume, WhatDiffersIsNamed) {
  ASSERT_EQ(strata_command(train_line("run")).code, 0);
  expect_refused(strata_command(train_line("run")), 2, {"has checkpoints of an earlier run"});
  const auto refused = [&](const std::string& line) {
    const CommandOutcome o = strata_command(line);
    EXPECT_EQ(o.code, 2) << o.err << o.out;
    return o.err;
  };
  EXPECT_NE(refused(resume_line("run")).find("all 60 steps are done"), std::string::npos);
  const std::string seed = refused(train_line("run", "--resume auto --seed 3"));
  EXPECT_NE(seed.find("cannot be gone on with exactly: seed: 1 there, 3 here"), std::string::npos)
      << seed;
  EXPECT_NE(refused("resume " + folder_.path("none")).find("there is no folder"),
            std::string::npos);
  fs::create_directories(folder_.path("empty"));
  EXPECT_NE(refused("resume " + folder_.path("empty")).find("there is no checkpoint in"),
            std::string::npos);
  EXPECT_NE(refused(resume_line("run", "--lr 3")).find("unknown flag '--lr'"), std::string::npos);
  folder_.write("text.txt", folder_.read("text.txt") + "more");
  EXPECT_NE(refused(resume_line("run", "--steps 70")).find("exactly: data: "), std::string::npos);
  const CommandOutcome o = strata_command(resume_line("run", "--steps 70 --allow-inexact"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("Not as before: data: "), std::string::npos) << o.out;
  EXPECT_EQ(losses("run").size(), 70u);
}

TEST_F(RunResume, FromAnOlderCheckpointTheLaterOnesAreLeftBehind) {
  ASSERT_EQ(strata_command(train_line("run", "--checkpoint-every 20 --keep-last 3")).code, 0);
  EXPECT_EQ(checkpoints("run").size(), 3u);
  const std::string older = folder_.path("run/checkpoints/step-00000020");
  const CommandOutcome o = strata_command("resume " + older + " --keep-last 3");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("2 later checkpoints are now called superseded"), std::string::npos);
  EXPECT_EQ(losses("run"), uninterrupted());
  EXPECT_TRUE(fs::exists(folder_.path("run/checkpoints/superseded-step-00000040-1")));
}

TEST_F(RunResume, ADamagedCheckpointNamesTheOneBefore) {
  ASSERT_EQ(strata_command(train_line("run", "--checkpoint-every 20 --keep-last 3")).code, 0);
  const std::string file = "run/checkpoints/step-00000060/optimizer.safetensors";
  std::string content = folder_.read(file);
  content[content.size() - 10] ^= 1;
  folder_.write(file, content);
  const CommandOutcome o = strata_command(resume_line("run", "--steps 70"));
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("the one before it: strata resume " +
                       folder_.path("run/checkpoints/step-00000040")),
            std::string::npos)
      << o.err;
}

TEST_F(RunResume, DataThatMovedIsNamed) {
  ASSERT_EQ(strata_command(train_line("run")).code, 0);
  std::filesystem::rename(data_, folder_.path("moved.txt"));
  EXPECT_EQ(strata_command(resume_line("run", "--steps 70")).code, 2);
  const CommandOutcome o =
      strata_command(resume_line("run", "--steps 70 --data " + folder_.path("moved.txt")));
  EXPECT_EQ(o.code, 0) << o.err;
  // A run that has all its steps is no failure to whoever starts it again and again.
  const CommandOutcome again = strata_command(train_line("run", "--resume auto --json"));
  EXPECT_EQ(again.code, 2) << "its data is gone";
  std::filesystem::rename(folder_.path("moved.txt"), data_);
  const CommandOutcome done = strata_command(train_line("run", "--resume auto --json"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.json()["steps"], 70u);
}

TEST_F(RunResume, ACheckpointOutsideARunIsNotGoneOnWith) {
  ASSERT_EQ(strata_command(train_line("run")).code, 0);
  fs::create_directories(folder_.path("a/b"));
  fs::copy(folder_.path("run/checkpoints/step-00000060"), folder_.path("a/b/copy"));
  const CommandOutcome o = strata_command("resume " + folder_.path("a/b/copy") + " --steps 70");
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("is not in a run's folder of checkpoints"), std::string::npos) << o.err;
  EXPECT_FALSE(fs::exists(folder_.path("a/metrics.jsonl")));
  EXPECT_EQ(strata_command("eval " + folder_.path("a/b/copy")).code, 0) << "reading is fine";
}

TEST_F(RunResume, AHangUpSavesAndIgnoredSignalsStayIgnored) {
  const CommandOutcome o = strata_command(train_line("run"), {SIGHUP, after_step("run", 3)});
  EXPECT_EQ(o.code, 75) << o.err;
  const CommandOutcome ignored = strata_command(
      train_line("other"), {SIGINT, after_step("other", 3)}, [] { std::signal(SIGINT, SIG_IGN); });
  EXPECT_EQ(ignored.code, 0) << ignored.err;
}

TEST_F(RunResume, NamesThatAreNoTextAreRefusedFirst) {
  const std::string out = folder_.path("d\xff");
  const CommandOutcome o =
      strata_command("train --model gpt2:L5,D32,H2,V256,T16 --data " + data_ + " --out " + out);
  expect_refused(o, 2, {"--out: the name is not UTF-8 text"});
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(RunResume, OneRunAtATimeInAFolder) {
  CommandOutcome second;
  const CommandOutcome o = strata_command(train_line("run", "--checkpoint-every 1"),
                                          {SIGTERM, [&] {
                                             if (!after_step("run", 2)()) return false;
                                             second = strata_command(resume_line("run"));
                                             return true;
                                           }});
  EXPECT_EQ(o.code, 75);
  EXPECT_EQ(second.code, 2);
  EXPECT_NE(second.err.find("another run is using "), std::string::npos) << second.err;
}

}  // namespace
}  // namespace strata
