#include "cli/bench_policies.hpp"

#include "tests/cli/command.hpp"

namespace strata {
namespace {

TEST(PolicyRow, ComparesRoundByRound) {
  PolicyRow r;
  r.samples = {{4, 2, std::nullopt}, {2, 3, 0.25}, {1, 1, 0.5}};
  EXPECT_EQ(r.measured(), (MeasuredRate{2, 1, 4}));
  EXPECT_EQ(r.simulated(), (MeasuredRate{2, 1, 3}));
  EXPECT_EQ(r.ratio(), (MeasuredRate{1, 0.5, 1.5}));
  EXPECT_EQ(r.others_share(), 0.5);
  r.bound.bytes = {1, 2, 4, 8};
  EXPECT_EQ(r.bound_bytes(), 15);
}

const std::string kTiny =
    "bench policies --model gpt2:L2,D32,H2,V64,T16 --dtype bf16 --batch 2 --pairs 1 --steps 2 "
    "--seconds 0.005 --threads 2 --json ";

/// A whole short measurement: of its bytes, not of its speed.
void expect_bytes_as_simulated(const std::string& flags) {
  const CommandOutcome o =
      strata_command(kTiny + flags + " --model-data 0.5,0.8 --policy auto --policy lru");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  ASSERT_EQ(j.at("rows").size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const auto& r = j.at("rows").at(i);
    EXPECT_EQ(r.at("policy"), i % 2 == 0 ? "auto" : "lru");
    ASSERT_EQ(r.at("fits"), true) << o.err;
    EXPECT_GT(r.at("device_mem"), 0);
    EXPECT_GT(r.at("measured_bytes"), 0);
    EXPECT_EQ(r.at("measured_bytes"), r.at("simulated_bytes")) << "the same engine issues them";
    for (const char* key : {"bound_bytes", "measured_step_seconds", "simulated_step_seconds",
                            "bound_step_seconds", "simulated_over_measured"}) {
      EXPECT_GT(r.at(key).get<double>(), 0) << key;
    }
  }
  EXPECT_LT(j.at("rows").at(0).at("device_mem"), j.at("rows").at(2).at("device_mem"));
}

TEST(BenchPolicies, MovesWhatWasSimulatedBetweenDeviceAndHost) { expect_bytes_as_simulated(""); }

TEST(BenchPolicies, MovesWhatWasSimulatedToAndFromNvme) {
  const Folder folder;
  expect_bytes_as_simulated("--clip 0 --nvme " + folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchPolicies, KeepsRowsThatDoNotFit) {
  const CommandOutcome o =
      strata_command(kTiny + "--model-data 0.8 --policy resident --policy lru");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto row = o.json().at("rows").at(0);
  EXPECT_EQ(row.at("policy"), "resident");
  EXPECT_EQ(row.at("fits"), false);
  EXPECT_TRUE(row.at("measured_step_seconds").is_null());
  EXPECT_EQ(strata_command(kTiny + "--model-data 0.8 --policy resident").code, 3);
}

TEST(BenchPolicies, ChecksItsFlags) {
  expect_refused(strata_command("bench policies"), 2, {"--model is missing"});
  expect_refused(strata_command(kTiny + "--nvme-rate 1GB"), 2, {"there is no NVMe tier"});
  expect_refused(strata_command(kTiny + "--model-data 0.5,,"), 2, {"--model-data"});
  expect_refused(strata_command(kTiny + "--policy luc"), 2, {"luc", "lru"});
}

}  // namespace
}  // namespace strata
