// `strata verify`, run as a user runs it.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

constexpr const char* kShape =
    "verify --model gpt2:L2,D32,H2,V256,T16 --batch 2 --threads 2 --host-mem 1GiB --steps 3 ";

uint64_t least_device_memory() {
  const CommandOutcome o = strata_command(
      "plan --model gpt2:L2,D32,H2,V256,T16 --batch 2 --threads 2 --host-mem 1GiB "
      "--device-mem 1GiB --json");
  return o.json()["tiers"]["device"]["minimum"];
}

void expect_identical(const CommandOutcome& o, uint64_t runs) {
  EXPECT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  EXPECT_EQ(j.at("runs"), runs);
  EXPECT_EQ(j.at("identical"), runs);
  EXPECT_TRUE(j.at("first_difference").is_null());
  EXPECT_GT(j.at("coverage").at("weights moved"), runs / 2) << "the rest moved records alone";
  for (const auto& [name, count] : j["coverage"].items()) {
    EXPECT_TRUE(count.is_number_unsigned()) << name;
  }
  EXPECT_NE(o.err.find("numerics model=gpt2:"), std::string::npos) << "the key is printed";
  EXPECT_NE(o.err.find("bit-identical"), std::string::npos);
}

TEST(RunVerify, RandomCasesOfASeed) {
  expect_identical(strata_command("verify --random 3 --seed 5 --json"), 3);
}

TEST(RunVerify, OneConfigurationAtItsLeastMemory) {
  const std::string line =
      kShape + std::string("--device-mem ") + std::to_string(least_device_memory());
  expect_identical(strata_command(line + " --json"), 1);
  const CommandOutcome text = strata_command(line);
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("1 of 1 runs bit-identical"), std::string::npos) << text.out;
}

TEST(RunVerify, OnText) {
  const Folder folder;
  std::string text;
  while (text.size() < 5000) text += "some years ago, never mind how long precisely. ";
  expect_identical(
      strata_command(kShape + std::string("--device-mem ") + std::to_string(least_device_memory()) +
                     " --json --data " + folder.write("text.txt", text)),
      1);
}

TEST(RunVerify, RandomRunsOnNvmeAreIdentical) {
  const Folder a, b;
  const CommandOutcome o =
      strata_command("verify --random 8 --seed 5 --json --nvme " + a.path("") + "," + b.path(""));
  EXPECT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  EXPECT_EQ(j.at("identical"), 8u);
  EXPECT_GT(j.at("coverage").at("nvme engine auto"), 0u);
  EXPECT_GT(j.at("coverage").at("nvme engine threads"), 0u);
  EXPECT_GT(j.at("coverage").at("nvme directories 2"), 0u);
  EXPECT_EQ(j.at("coverage").at("peaks as predicted"), 8u);
}

TEST(RunVerify, ARunThatMovesNothingProvesNothing) {
  const CommandOutcome o =
      strata_command(kShape + std::string("--device-mem 512MiB --policy resident --json"));
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.json().at("runs"), 1u);
  EXPECT_NE(o.err.find("moved nothing"), std::string::npos) << o.err;
}

TEST(RunVerify, ANonFiniteRunIsCodeSix) {
  const CommandOutcome o =
      strata_command(kShape + std::string("--device-mem 512MiB --lr 1e30 --json"));
  EXPECT_EQ(o.code, 6) << o.err;
  EXPECT_EQ(o.out, "");
}

TEST(RunVerify, BudgetsBelowTheLeastAreCodeThree) {
  const CommandOutcome o = strata_command(kShape + std::string("--device-mem 100kB --json"));
  expect_refused(o, 3, {"device memory is short by", "minimum"});
}

}  // namespace
}  // namespace strata
