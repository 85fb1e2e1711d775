// `strata report`, and what `strata train` and `strata sim` record, as a user sees it.
#include <map>

#include "tests/cli/command.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class RunReport : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    data_ = folder_.write("text.txt", text);
    fs::create_directories(folder_.path("drive"));
  }

  /// On a drive, so that there is something to see, and evaluated at the end only, as evaluations
  /// take updates out of steps.
  CommandOutcome train(const std::string& flags) const {
    return strata_command(
        "train --model gpt2:L5,D32,H2,V256,T16 --batch 2 --threads 2 --policy lru --no-checkpoint "
        "--eval-every 100 "
        "--device-mem 512MiB --nvme-mem 64MiB --nvme " +
        folder_.path("drive") + " --data " + data_ + " --out " + run_ + " " + flags);
  }
  CommandOutcome report(const std::string& flags = "") const {
    return strata_command("report " + run_ + " " + flags);
  }
  Json file(const std::string& name) const { return Json::parse(folder_.read("run/" + name)); }

  Folder folder_;
  std::string data_;
  std::string run_ = folder_.path("run");
};

/// Slices of a thread of the first process by begin, which never overlap but where one holds the
/// other.
void expect_nested(const Json& trace) {
  std::map<int, std::vector<std::pair<double, double>>> threads;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    EXPECT_GE(e.at("dur"), 0);
    const double begin = e.at("ts");
    threads[e.at("pid").get<int>() * 100000 + e.at("tid").get<int>()].emplace_back(
        begin, begin + e.at("dur").get<double>());
  }
  EXPECT_GE(threads.size(), 4u);
  constexpr double kRounding = 0.002;  // microseconds
  for (auto& [thread, slices] : threads) {
    std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back() + kRounding) << thread;
      }
      open.push_back(end);
    }
  }
}

TEST_F(RunReport, ARunRecordsTheStepsItWasAskedFor) {
  const CommandOutcome o = train("--steps 6 --trace-steps 3..4 --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const Json trace = file("trace.json");
  EXPECT_EQ(trace.at("otherData").at("source"), "measured");
  EXPECT_EQ(trace.at("otherData").at("first_step"), 3);
  EXPECT_EQ(trace.at("otherData").at("complete"), true);
  expect_nested(trace);
  std::map<uint64_t, size_t> ops, moves;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.contains("cat") && e["cat"] == "op") ++ops[e.at("args").at("step")];
    if (e.contains("cat") && e["cat"] == "move") ++moves[e.at("args").at("step")];
  }
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_GT(ops[3], 20u);
  EXPECT_EQ(ops[3], ops[4]);
  EXPECT_GT(moves[4], 5u);
  const Json stalls = file("stalls.json");
  EXPECT_EQ(stalls, o.json().at("stalls"));
  double sum = stalls.at("compute_seconds");
  for (const auto& [cause, seconds] : stalls.at("stalls").items()) {
    EXPECT_GE(seconds.get<double>(), 0) << cause;
    sum += seconds.get<double>();
  }
  EXPECT_NEAR(sum, stalls.at("step_seconds"), 1e-9);
  EXPECT_GE(stalls.at("advice").size(), 1u);
  for (const Json& a : stalls["advice"]) EXPECT_FALSE(a.at("text").get<std::string>().empty());
  ASSERT_EQ(train("--steps 3").code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/trace.json")) << "it was of an earlier run";
}

TEST_F(RunReport, RecordingChangesNoLoss) {
  const auto losses = [&] {
    std::vector<Json> out;
    std::istringstream lines(folder_.read("run/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line)["loss"]);
    return out;
  };
  ASSERT_EQ(train("--steps 4").code, 0);
  const auto plain = losses();
  ASSERT_EQ(train("--steps 4 --trace-steps 1..4").code, 0);
  EXPECT_EQ(losses(), plain);
}

TEST_F(RunReport, AdviceIsPredictedWhenAskedFor) {
  const CommandOutcome o = train("--steps 5 --advice --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const Json stalls = o.json().at("stalls");
  EXPECT_EQ(stalls.at("rates"), "measured in this run");
  EXPECT_GT(stalls.at("predicted_step_seconds"), 0);
  EXPECT_NE(o.err.find("advice  "), std::string::npos) << o.err;
  for (const Json& a : stalls["advice"]) {
    if (a.at("kind") != "device_memory") continue;
    EXPECT_GT(a.at("more_bytes"), 0);
    EXPECT_LT(a.at("predicted_step_seconds").at("after"),
              a.at("predicted_step_seconds").at("before"));
  }
}

TEST_F(RunReport, ThePageShowsTheRecordedStepElseASimulatedOne) {
  ASSERT_EQ(train("--steps 6 --trace-steps 3..4").code, 0);
  CommandOutcome o = report("--json");
  ASSERT_EQ(o.code, 0) << o.err;
  Json j = o.json();
  EXPECT_EQ(j.at("timeline").at("source"), "measured");
  EXPECT_EQ(j.at("timeline").at("step"), 3);
  EXPECT_EQ(j.at("metrics").at("steps"), 6);
  EXPECT_EQ(j.at("metrics").at("validation").size(), 1u);
  EXPECT_EQ(j.at("measured"), file("stalls.json"));
  EXPECT_NE(j.at("verdict").get<std::string>().find("tokens/s"), std::string::npos);
  EXPECT_EQ(j.at("rates"), "nominal");
  EXPECT_GT(j.at("links").at("nvme_read"), 0);
  const std::string page = folder_.read("run/report.html");
  EXPECT_NE(page.find("gpt2:L5,D32,H2,V256,T16"), std::string::npos);

  o = report("--simulate --json -o " + folder_.path("other.html"));
  ASSERT_EQ(o.code, 0) << o.err;
  j = o.json();
  EXPECT_EQ(j.at("timeline").at("source"), "simulated");
  EXPECT_GT(j.at("timeline").at("slices").size(), 50u);
  EXPECT_GT(j.at("timeline").at("stays").size(), 5u);
  EXPECT_GT(j.at("timeline").at("usage").at("device").at("times").size(), 20u);
  EXPECT_TRUE(fs::exists(folder_.path("other.html")));
}

TEST_F(RunReport, SaysWhatIsMissingOrDamaged) {
  expect_refused(report(), 2, {"no folder", run_});
  fs::create_directories(run_);
  expect_refused(report(), 2, {"run.json", "--out"});
  ASSERT_EQ(train("--steps 2 --trace-steps 1..2").code, 0);
  const auto damaged = [&](const std::string& name, const std::string& text,
                           const std::vector<std::string>& parts) {
    const std::string before = folder_.read("run/" + name);
    folder_.write("run/" + name, text);
    expect_refused(report(), 2, parts);
    folder_.write("run/" + name, before);
  };
  damaged("run.json", "{", {"run.json", "damaged"});
  damaged("run.json", "{\"format\":99}", {"run.json", "another version"});
  damaged("metrics.jsonl", "\n", {"metrics.jsonl", "no step"});
  damaged("trace.json", "{\"traceEvents\":3}", {"trace.json", "--simulate"});
  damaged("trace.json", "{\"trace", {"trace.json", "--simulate"});
  damaged("stalls.json", "{\"steps\":1}", {"stalls.json"});
  EXPECT_EQ(report().code, 0);
}

TEST_F(RunReport, RefusesStepsThatCannotBeRecorded) {
  expect_refused(train("--steps 2 --trace-steps 4..3"), 2, {"--trace-steps", "'3'"});
  expect_refused(train("--steps 2 --trace-steps 1..x"), 2, {"--trace-steps", "'x'"});
  expect_refused(train("--steps 2 --trace-steps 1..1000000"), 2, {"1000000 steps", "record fewer"});
}

TEST_F(RunReport, SimWritesTheSameFormat) {
  const std::string trace = folder_.path("gpt2.trace"), out = folder_.path("chrome.json");
  ASSERT_EQ(strata_command("trace --model gpt2:L3,D64,H2,V256,T64 --threads 2 -o " + trace).code,
            0);
  const std::string sim = "sim " + trace + " --host-mem 1GiB --device-mem 64MiB --policy lru ";
  ASSERT_EQ(strata_command(sim + "--no-bound --chrome-trace " + out).code, 0);
  const Json j = Json::parse(folder_.read("chrome.json"));
  EXPECT_EQ(j.at("otherData").at("source"), "simulated");
  expect_nested(j);
  expect_refused(strata_command(sim + "--policy belady --chrome-trace " + out), 2,
                 {"--chrome-trace", "one simulation"});
}

}  // namespace
}  // namespace strata
