// `strata plan`, run as a user runs it.
#include <filesystem>
#include <map>

#include "tests/cli/command.hpp"

namespace strata {
namespace {

using Flags = std::map<std::string, std::string>;

/// Flag by flag, so that a fix can replace some.
Flags base() {
  return {{"--model", "gpt2:L3,D64,H2,V256,T64"},
          {"--batch", "4"},
          {"--threads", "2"},
          {"--device-mem", "1GiB"},
          {"--host-mem", "1GiB"}};
}

CommandOutcome plan(const Flags& flags, bool json = true) {
  std::vector<std::string> line = {"plan"};
  for (const auto& [name, value] : flags) {
    line.push_back(name);
    line.push_back(value);
  }
  if (json) line.push_back("--json");
  return strata_command(line);
}

/// Flags with those of a fix in their place.
Flags with(Flags flags, const std::string& fix) {
  const std::vector<std::string> list = words(fix);
  for (size_t i = 0; i + 1 < list.size(); i += 2) flags[list[i]] = list[i + 1];
  return flags;
}

/// The smallest device budget.
std::string least(const Flags& flags) {
  return plan(flags).json().at("tiers").at("device").at("minimum").dump();
}

void expect_keys(const nlohmann::json& j) {
  EXPECT_TRUE(j.at("fits").is_boolean());
  ASSERT_EQ(j.at("tiers").size(), 3u);
  for (const char* tier : {"device", "host", "nvme"}) {
    const auto& t = j["tiers"].at(tier);
    expect_bytes(t, {"budget", "peak", "minimum"});
    expect_bytes(t.at("by_category"), {"weight", "grad", "optimizer", "activation", "external"});
    uint64_t sum = 0;
    for (const auto& [name, bytes] : t["by_category"].items()) sum += bytes.get<uint64_t>();
    EXPECT_GE(sum, t["peak"].get<uint64_t>()) << tier << ": categories peak at different times";
  }
  EXPECT_TRUE(j.at("shortfall").is_array());
  EXPECT_TRUE(j.at("fixes").is_array());
  EXPECT_TRUE(j.at("step_seconds").is_number());
  expect_bytes(j, {"h2d_bytes_per_step", "d2h_bytes_per_step"});
}

TEST(RunPlan, TimesComeFromAMachineFile) {
  Flags flags = base();
  const double nominal = plan(flags).json().at("step_seconds");
  const auto tree = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  flags["--machine"] = tree / "machines" / "h100-node.json";
  const double fast = plan(flags).json().at("step_seconds");
  EXPECT_LT(fast, nominal / 5);
  // That machine's memory is not this one's.
  flags["--device-mem"] = "10TiB";
  flags["--nvme-mem"] = "1TiB";
  EXPECT_EQ(plan(flags).code, 0);
  EXPECT_EQ(plan(flags).json()["tiers"]["nvme"]["budget"], uint64_t{1} << 40);
  flags["--machine"] = tree / "README.md";
  const CommandOutcome bad = plan(flags);
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("README.md: is not JSON"), std::string::npos) << bad.err;
  flags["--machine"] = "/nowhere.json";
  EXPECT_NE(plan(flags).err.find("/nowhere.json"), std::string::npos);
}

TEST(RunPlan, WhatFitsIsOneObjectAndCodeZero) {
  const CommandOutcome o = plan(base());
  EXPECT_EQ(o.code, 0) << o.err;
  const auto j = o.json();  // throws on anything but one object
  expect_keys(j);
  EXPECT_EQ(j["fits"], true);
  EXPECT_TRUE(j["shortfall"].empty());
  EXPECT_TRUE(j["fixes"].empty());
  EXPECT_EQ(j["tiers"]["device"]["budget"], 1u << 30);
  EXPECT_EQ(j["tiers"]["nvme"]["budget"], 0u);
  EXPECT_LE(j["tiers"]["device"]["minimum"], j["tiers"]["device"]["peak"]);
  EXPECT_NE(o.err.find("FITS"), std::string::npos) << "people's text goes to stderr";
}

TEST(RunPlan, TheSameTextWithoutJsonIsOnStdout) {
  const CommandOutcome o = plan(base(), false);
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.err, "");
  for (const char* part :
       {"device", "host", "weight", "activation", "peak", "budget", "minimum", "FITS", "plan "}) {
    EXPECT_NE(o.out.find(part), std::string::npos) << part;
  }
}

TEST(RunPlan, ExplainsWhereChunksLiveAndWhatLimits) {
  const CommandOutcome o = strata_command(
      "plan --model gpt2:L3,D64,H2,V256,T64 --device-mem 1GiB --host-mem 1GiB --explain");
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* part : {"chunks", "wte.weight", "on device", "saves", "for each MiB", "Tightest",
                           "Bound", "no plan takes less than"}) {
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " in:\n" << o.out;
  }
}

TEST(RunPlan, OneByteBelowTheMinimumIsShortByOneByte) {
  Flags flags = base();
  const uint64_t minimum = std::stoull(least(flags));
  flags["--device-mem"] = std::to_string(minimum);
  EXPECT_EQ(plan(flags).code, 0);
  flags["--device-mem"] = std::to_string(minimum - 1);
  const CommandOutcome o = plan(flags);
  EXPECT_EQ(o.code, 3) << o.err;
  const auto j = o.json();
  expect_keys(j);
  EXPECT_EQ(j["fits"], false);
  ASSERT_EQ(j["shortfall"].size(), 1u);
  EXPECT_EQ(j["shortfall"][0].at("tier"), "device");
  EXPECT_EQ(j["shortfall"][0].at("bytes"), 1u);
  EXPECT_FALSE(j["shortfall"][0].at("for").get<std::string>().empty());
  EXPECT_EQ(j["tiers"]["device"]["minimum"], minimum);
  EXPECT_NE(o.err.find("DOES NOT FIT"), std::string::npos);
  EXPECT_NE(o.err.find("short by 1 B (1 bytes)"), std::string::npos) << o.err;
}

/// Plans every fix in place of what it changes.
void expect_fixes_fit(const Flags& flags, const std::vector<std::string>& expected) {
  const CommandOutcome o = plan(flags);
  EXPECT_EQ(o.code, 3);
  std::vector<std::string> changes;
  double last = 0;
  const auto j = o.json();
  for (const auto& fix : j.at("fixes")) {
    const std::string change = fix.at("flags");
    EXPECT_FALSE(fix.at("effect").get<std::string>().empty());
    const CommandOutcome fixed = plan(with(flags, change));
    EXPECT_EQ(fixed.code, 0) << change << ":\n" << fixed.err;
    const bool settings = change.find("-mem") == std::string::npos;
    if (settings) {
      EXPECT_GE(fix.at("step_seconds").get<double>(), last) << "the fastest first";
      last = fix["step_seconds"];
      changes.push_back(change);
    } else {
      EXPECT_EQ(&fix, &j["fixes"].back()) << "larger budgets come last";
      changes.push_back(change.substr(0, change.find(' ')));
    }
    EXPECT_NE(o.err.find(change), std::string::npos) << "people are told the same";
  }
  std::sort(changes.begin(), changes.end());
  EXPECT_EQ(changes, expected) << j;
}

TEST(RunPlan, FixesOfAResidentRunFit) {
  Flags flags = with(base(), "--batch 8 --policy resident");
  flags["--device-mem"] = least(with(flags, "--recompute block --policy auto"));
  expect_fixes_fit(flags, {"--device-mem", "--recompute block --policy auto"});
}

TEST(RunPlan, FixesOfAStreamedRunFit) {
  Flags flags = base();
  flags["--device-mem"] = std::to_string(std::stoull(least(flags)) - 1);
  expect_fixes_fit(flags, {"--batch 2 --accum 2", "--device-mem", "--recompute block"});
}

TEST(RunPlan, WhereNoSingleChangeIsEnoughAllAreTriedTogether) {
  Flags flags = with(base(), "--batch 8 --policy static:w=1,o=1");
  const std::string all = "--batch 2 --accum 4 --recompute block --policy auto";
  flags["--device-mem"] = least(with(flags, all));
  expect_fixes_fit(flags, {all, "--device-mem"});
}

TEST(RunPlan, HostMemoryThatIsShortIsNamed) {
  Flags flags = base();
  flags["--policy"] = "static:w=0,o=0";
  const auto fits = plan(flags).json();
  // What the process takes itself is charged to the host, in steps of 8 MiB.
  const uint64_t minimum = fits["tiers"]["host"]["minimum"];
  const uint64_t external = fits["tiers"]["host"]["by_category"]["external"];
  EXPECT_EQ(external % (8 << 20), 0u);
  EXPECT_GT(external, 0u);
  flags["--host-mem"] = std::to_string((minimum - external) / 2);
  const auto j = plan(flags).json();
  ASSERT_EQ(j["shortfall"].size(), 1u);
  EXPECT_EQ(j["shortfall"][0]["tier"], "host");
  EXPECT_GE(j["shortfall"][0]["bytes"], (minimum - external) / 2);
}

}  // namespace
}  // namespace strata
