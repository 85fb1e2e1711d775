// `strata sim`, run as a user runs it.
#include <filesystem>

#include "offload/trace_workload.hpp"
#include "tests/cli/command.hpp"

namespace strata {
namespace {

using Json = nlohmann::json;

/// A folder with the trace of a small model.
class RunSim : public ::testing::Test {
 protected:
  RunSim() {
    const CommandOutcome o =
        strata_command("trace --model gpt2:L3,D64,H2,V256,T64 --batch 4 --threads 2 -o " + trace_);
    EXPECT_EQ(o.code, 0) << o.err;
  }

  CommandOutcome sim(const std::string& flags) const {
    return strata_command("sim " + trace_ + " " + flags);
  }
  Json json(const std::string& flags) const {
    const CommandOutcome o = sim(flags + " --json");
    EXPECT_EQ(o.code, 0) << o.err;
    return o.json();
  }
  /// The smallest device budget.
  uint64_t least(const std::string& flags) const {
    const CommandOutcome o = sim(flags + " --device-mem 1 --json");
    EXPECT_EQ(o.code, 3) << o.err;
    return o.json().at("minimum").at("device");
  }

  Folder folder_;
  std::string trace_ = folder_.path("gpt2.trace");
};

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST_F(RunSim, JsonSaysWhatAStepTakes) {
  const std::string budgets = " --host-mem 1GiB --device-mem " + std::to_string(least("") * 5 / 4);
  const Json j = json("--policy belady" + budgets);
  EXPECT_EQ(j.at("policy"), "belady");
  EXPECT_EQ(j.at("planned_by"), "belady");
  EXPECT_EQ(j.at("fits"), true);
  EXPECT_EQ(j.at("steps"), 24);
  EXPECT_EQ(j.at("tokens"), 256);
  const std::vector<std::string> links = {"h2d", "d2h", "nvme_read", "nvme_write"};
  expect_bytes(j.at("bytes"), links);
  expect_bytes(j.at("peaks"), {"device", "host", "nvme"});
  expect_bytes(j, {"hits", "misses", "prefetches", "late_prefetches", "wasted_prefetches",
                   "evictions", "updates"});
  EXPECT_GT(j["bytes"]["h2d"], 0);
  EXPECT_EQ(j["bytes"]["nvme_read"], 0);
  EXPECT_LE(j["peaks"]["device"], j["budgets"]["device"]);
  const double step = j.at("step_seconds"), roofline = j.at("roofline_seconds");
  EXPECT_GT(roofline, 0);
  EXPECT_LE(roofline, step);
  EXPECT_TRUE(j["work"].contains(j.at("bottleneck").get<std::string>())) << j["bottleneck"];
  double sum = j["work"]["compute"];
  ASSERT_EQ(j.at("stalls").size(), 7u);
  for (const auto& [cause, seconds] : j["stalls"].items()) {
    EXPECT_GE(seconds.get<double>(), 0) << cause;
    sum += seconds.get<double>();
  }
  EXPECT_NEAR(sum, step, 1e-9 * step);
  EXPECT_NEAR(j.at("tokens_per_second"), 256 / step, 1e-6 * 256 / step);
}

TEST_F(RunSim, ItIsTheSimulationOfTheSamePlan) {
  const Json j =
      json("--policy lru --host-mem 1GiB --device-mem 6MiB --accum 2 --clip 0 --steps 5");
  TraceWorkloadConfig config;
  config.micro_batches = 2;
  const TraceWorkload workload(read_trace(folder_.read("gpt2.trace"), "here"), config);
  const auto policy = make_policy("lru");
  const PlanResult r =
      make_plan(workload.input(*policy, {{6u << 20, 1u << 30, 0}, {}}, 0, VirtualRates(), {3, 5}));
  EXPECT_EQ(j["step_seconds"], r.prediction.step_seconds);
  EXPECT_EQ(j["bytes"]["h2d"], r.prediction.h2d_bytes);
  EXPECT_EQ(j["misses"], r.prediction.demand_misses);
  EXPECT_EQ(j["peaks"]["device"], r.tiers[0].peak);
  EXPECT_EQ(j["accum"], 2);
}

TEST_F(RunSim, ForPeopleItSaysTheSameInWords) {
  const CommandOutcome o = sim("--device-mem 1GiB --host-mem 1GiB");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  for (const char* part :
       {"gpt2:L3,D64,H2,V256,T64 fp32", "policy auto", "rates nominal", "roofline", "Stalled",
        "hits", "wasted", "peak", "budget", "1 GiB", "mean of 24 steps"}) {
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " in:\n" << o.out;
  }
}

TEST_F(RunSim, WithoutTheBoundAllElseIsTheSame) {
  const std::string flags = "--host-mem 1GiB --device-mem 6MiB";
  Json with = json(flags);
  EXPECT_TRUE(with.contains("bound_bytes"));
  EXPECT_EQ(with.erase("bound_bytes") + with.erase("bound_seconds"), 2u);
  EXPECT_EQ(json(flags + " --no-bound"), with);
  EXPECT_NE(sim(flags).out.find("Bound"), std::string::npos);
  EXPECT_EQ(sim(flags + " --no-bound").out.find("Bound"), std::string::npos);
}

TEST_F(RunSim, WhatDoesNotFitIsRefusedWithTheShortfall) {
  const uint64_t minimum = least("--host-mem 1GiB");
  const std::string enough = "--host-mem 1GiB --device-mem " + std::to_string(minimum),
                    less = "--host-mem 1GiB --device-mem " + std::to_string(minimum - 1);
  EXPECT_EQ(sim(enough).code, 0);
  expect_refused(sim(less), 3, {"device memory is short by 1 bytes", std::to_string(minimum)});
  const CommandOutcome o = sim(less + " --json");
  EXPECT_EQ(o.code, 3);
  const Json j = o.json();
  EXPECT_EQ(j.at("fits"), false);
  EXPECT_EQ(j.at("shortfall").at("device"), 1);
  EXPECT_EQ(j.at("shortfall").at("host"), 0);
  EXPECT_FALSE(j.contains("step_seconds"));
  EXPECT_NE(o.err.find("short by 1 bytes"), std::string::npos) << "people are told the same";
}

TEST_F(RunSim, MemoryOfOtherMachinesIsNotComparedWithThisOne) {
  const Json j = json("--device-mem 900TiB --host-mem 900TiB --nvme-mem 900TiB");
  EXPECT_EQ(j["budgets"]["nvme"], uint64_t{900} << 40);
  // Nor is any taken: the drive is one that is not there.
  const uint64_t device = least("--nvme-mem 1GiB") * 2;
  const Json on_drive = json("--policy lru --nvme-mem 1GiB --device-mem " + std::to_string(device));
  EXPECT_GT(on_drive["peaks"]["nvme"], 0);
  EXPECT_GT(on_drive["bytes"]["nvme_read"], 0);
  EXPECT_GT(on_drive["work"]["nvme_read"], 0);
}

TEST_F(RunSim, FlagsChangeWhatIsPlanned) {
  const uint64_t plain = least("--host-mem 1GiB");
  EXPECT_LT(least("--host-mem 1GiB --recompute block"), plain);
  EXPECT_LT(least("--host-mem 1GiB --recompute block"), least("--host-mem 1GiB --recompute 1"));
  EXPECT_NE(least("--host-mem 1GiB --chunk-size 64KiB"), plain);
  EXPECT_GT(least("--host-mem 1GiB --tokens 512"), plain);
  const std::string all = " --device-mem 1GiB --policy resident";
  EXPECT_LT(json("--optimizer sgd" + all)["peaks"]["device"], json(all)["peaks"]["device"]);
  const double one = json(all)["step_seconds"], three = json("--accum 3" + all)["step_seconds"];
  EXPECT_GT(three, 2 * one);
  const double twice = json("--tokens 512" + all)["step_seconds"];
  EXPECT_GT(twice, 1.3 * one);
  EXPECT_LT(twice, 2 * one);
  EXPECT_GT(json("--clip 0 --host-mem 1GiB --device-mem 6MiB")["updates"], 0);
}

TEST_F(RunSim, RatesComeFromTheMachineFileAndKnownSecondsFromTheTrace) {
  const auto tree = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const std::string machine = "--device-mem 1GiB --machine " + (tree / "machines").string();
  const double nominal = json("--device-mem 1GiB")["step_seconds"];
  EXPECT_LT(json(machine + "/h100-node.json")["step_seconds"], nominal / 5);
  expect_refused(sim(machine + "/../README.md"), 2, {"README.md", "is not JSON"});
  TraceFile file = read_trace(folder_.read("gpt2.trace"), "here");
  file.trace.segments[0].ops[0].seconds = 2;
  folder_.write("gpt2.trace", write_trace(file));
  const double known = json(machine + "/h100-node.json")["step_seconds"];
  EXPECT_GT(known, 2.0);
  EXPECT_LT(known, 2.0 + nominal);
}

TEST_F(RunSim, ASweepIsATableOfEveryCombination) {
  const std::string sweep =
      "--policy resident --policy static:w=0.5,o=0.25 --device-mem 2MiB --device-mem 1GiB "
      "--tokens 64 --tokens 128 --host-mem 1GiB --steps 2";
  const CommandOutcome text = sim(sweep);
  EXPECT_EQ(text.code, 0) << text.err;
  const auto rows = lines(text.out);
  ASSERT_EQ(rows.size(), 9u) << text.out;
  EXPECT_EQ(rows[0].rfind("policy", 0), 0u);
  EXPECT_EQ(rows[1].rfind("resident ", 0), 0u) << "policies vary first";
  EXPECT_EQ(rows[2].rfind("static:w=0.5,o=0.25 ", 0), 0u);
  EXPECT_NE(rows[1].find("does not fit"), std::string::npos) << rows[1];
  EXPECT_NE(rows[1].find("device "), std::string::npos) << "by how much: " << rows[1];
  EXPECT_EQ(rows[3].find("does not fit"), std::string::npos) << rows[3];

  const Json j = json(sweep);
  ASSERT_EQ(j.at("runs").size(), 8u);
  std::vector<std::string> order;
  for (const Json& r : j["runs"]) {
    order.push_back(r["tokens"].dump() + " " + r["budgets"]["device"].dump() + " " +
                    r["policy"].get<std::string>());
  }
  EXPECT_EQ(order[0], "64 2097152 resident");
  EXPECT_EQ(order[3], "64 1073741824 static:w=0.5,o=0.25");
  EXPECT_EQ(order[6], "128 1073741824 resident");
  EXPECT_EQ(j["runs"][0]["fits"], false);
  EXPECT_EQ(j["runs"][2]["fits"], true);
  EXPECT_EQ(sim(sweep + " --format json").out, sim(sweep + " --json").out);
}

/// Cells of a line of CSV; quotes only around whole cells.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out = {""};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

TEST_F(RunSim, ASweepAsCsvHasAColumnForEachFigure) {
  const std::string sweep =
      "--policy resident --policy static:w=0.5,o=0.25 --device-mem 2MiB --device-mem 1GiB "
      "--host-mem 1GiB --steps 2";
  const CommandOutcome o = sim(sweep + " --format csv");
  EXPECT_EQ(o.code, 0) << o.err;
  const auto rows = lines(o.out);
  ASSERT_EQ(rows.size(), 5u) << o.out;
  const auto header = cells(rows[0]);
  const auto column = [&](const std::string& name) {
    const auto at = std::find(header.begin(), header.end(), name);
    EXPECT_NE(at, header.end()) << name << " in " << rows[0];
    return static_cast<size_t>(at - header.begin());
  };
  for (const std::string& row : rows) EXPECT_EQ(cells(row).size(), header.size()) << row;
  const Json j = json(sweep);
  const Json& fits = j["runs"][3];
  EXPECT_EQ(cells(rows[4])[column("policy")], "static:w=0.5,o=0.25");
  EXPECT_EQ(cells(rows[4])[column("bytes_h2d")], fits["bytes"]["h2d"].dump());
  EXPECT_EQ(cells(rows[4])[column("stalls_h2d")], fits["stalls"]["h2d"].dump());
  EXPECT_EQ(cells(rows[4])[column("shortfall_device")], "");
  EXPECT_EQ(cells(rows[1])[column("fits")], "false");
  EXPECT_EQ(cells(rows[1])[column("step_seconds")], "");
  EXPECT_EQ(cells(rows[1])[column("shortfall_device")], j["runs"][0]["shortfall"]["device"].dump());
}

TEST_F(RunSim, ASweepAsMarkdownIsATable) {
  const CommandOutcome o =
      sim("--policy lru --policy belady --device-mem 1GiB --steps 2 --format markdown");
  EXPECT_EQ(o.code, 0) << o.err;
  const auto rows = lines(o.out);
  ASSERT_EQ(rows.size(), 4u) << o.out;
  EXPECT_EQ(rows[0].rfind("| policy | device | tokens | step |", 0), 0u) << rows[0];
  EXPECT_EQ(rows[1].rfind("| --- | ---: |", 0), 0u) << rows[1];
  EXPECT_EQ(rows[2].rfind("| lru | 1 GiB | 256 |", 0), 0u) << rows[2];
  for (const std::string& row : rows) {
    EXPECT_EQ(std::count(row.begin(), row.end(), '|'),
              std::count(rows[0].begin(), rows[0].end(), '|'));
  }
}

TEST_F(RunSim, ASweepOfWhichNothingFitsIsCodeThree) {
  const CommandOutcome o = sim("--policy lru --policy belady --device-mem 1KiB");
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(lines(o.out).size(), 3u) << o.out;
}

TEST_F(RunSim, TracesMayBeLargerThanOtherTexts) {
  std::string text = folder_.read("gpt2.trace");
  text.insert(1, std::string(size_t{65} << 20, ' '));  // inside the header's object
  folder_.write("gpt2.trace", text);
  EXPECT_EQ(sim("--device-mem 1GiB --steps 1").code, 0);
}

TEST_F(RunSim, WhatIsMissingOrWrongIsNamed) {
  expect_refused(strata_command("sim --device-mem 1GiB"), 2, {"TRACE is missing", "strata trace"});
  expect_refused(sim(""), 2, {"--device-mem is missing"});
  expect_refused(sim("--device-mem 80%"), 2, {"--device-mem: '80%' is not a number of bytes"});
  expect_refused(sim("--device-mem 1GiB --host-mem -2GiB"), 2, {"--host-mem"});
  expect_refused(sim("--device-mem 1GiB --policy fifo"), 2, {"'fifo'", "no such policy"});
  expect_refused(sim("--device-mem 1GiB --tokens 0"), 2, {"--tokens"});
  expect_refused(sim("--device-mem 1GiB --tokens 1000000000000"), 2, {"1000000000000 tokens"});
  expect_refused(sim("--device-mem 1GiB --format xml"), 2, {"--format", "markdown"});
  expect_refused(sim("--device-mem 1GiB --format csv --json"), 2, {"--json", "--format"});
  expect_refused(sim("--device-mem 1GiB --polcy lru"), 2, {"'--polcy'", "'--policy'"});
  expect_refused(sim("--device-mem 1GiB more"), 2, {"'more' belongs to no flag"});
  expect_refused(strata_command("sim /nowhere.trace --device-mem 1GiB"), 1, {"/nowhere.trace"});
  const std::string bad = folder_.write("bad.trace", "{}\n");
  expect_refused(strata_command("sim " + bad + " --device-mem 1GiB"), 2,
                 {"bad.trace:1: is no trace"});
}

}  // namespace
}  // namespace strata
