// `strata train`, run as a user runs it.
#include "tests/cli/command.hpp"
#include "tests/train/shard_files.hpp"

namespace strata {
namespace {

class RunTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    data_ = folder_.write("text.txt", text);
  }

  CommandOutcome train(const std::string& flags) const {
    return strata_command("train --model gpt2:L5,D32,H2,V256,T16 --batch 2 --threads 2 --data " +
                          data_ + " --no-checkpoint --out " + folder_.path("run/a") + " " + flags);
  }
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> out;
    std::istringstream lines(folder_.read("run/a/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }
  /// The smallest device budget with homes on the host.
  uint64_t least() const {
    const CommandOutcome o = strata_command(
        "plan --model gpt2:L5,D32,H2,V256,T16 --batch 2 --threads 2 --host-mem 1GiB "
        "--device-mem 1GiB --json");
    return o.json()["tiers"]["device"]["minimum"];
  }

  Folder folder_;
  std::string data_;
};

TEST_F(RunTrain, WithinBudgets) {
  const uint64_t device = least();
  const CommandOutcome o =
      train("--steps 8 --lr 5e-3 --host-mem 1GiB --json --device-mem " + std::to_string(device));
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  EXPECT_EQ(j.at("steps"), 8u);
  expect_bytes(j, {"tokens", "h2d_bytes", "d2h_bytes", "weight_bytes", "device_weight_peak_bytes"});
  EXPECT_EQ(j["tokens"], 8u * 2 * 16);
  for (const char* tier : {"device", "host"}) {
    expect_bytes(j.at("tiers").at(tier), {"budget", "peak"});
    EXPECT_LE(j["tiers"][tier]["peak"], j["tiers"][tier]["budget"]);
  }
  EXPECT_EQ(j["tiers"]["device"]["budget"], device);
  EXPECT_LT(j["device_weight_peak_bytes"], j["weight_bytes"]) << "never all weights at once";
  EXPECT_GT(j["h2d_bytes"], 0u);

  const auto lines = metrics();
  ASSERT_EQ(lines.size(), 8u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), i + 1);
    for (const char* key :
         {"loss", "lr", "grad_norm", "tokens_per_second", "step_ms", "stall_ms"}) {
      EXPECT_TRUE(lines[i].at(key).is_number()) << key;
    }
    expect_bytes(lines[i], {"tokens", "used_peak_device_bytes", "used_peak_host_bytes", "h2d_bytes",
                            "d2h_bytes"});
    EXPECT_EQ(lines[i].contains("validation_loss"), true) << "a tenth of 8 steps is one";
  }
  EXPECT_EQ(lines.back()["loss"], j["loss"]);
  EXPECT_LT(lines.back()["loss"].get<double>(), lines.front()["loss"].get<double>());
  EXPECT_EQ(lines.back()["validation_loss"], j.at("validation_loss"));
  for (const char* part : {"FITS", "Numerics", "used peak", "state "}) {
    EXPECT_NE(o.err.find(part), std::string::npos) << part << " in\n" << o.err;
  }
}

TEST_F(RunTrain, BudgetsDoNotChangeTheState) {
  const auto state = [&](const std::string& flags) {
    const CommandOutcome o = train("--steps 3 " + flags);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err, "") << "without --json everything is on stdout";
    const bool seed_2 = flags.find("--seed 2") != std::string::npos;
    EXPECT_NE(o.out.find(seed_2 ? " seed=2 " : " seed=1 "), std::string::npos) << o.out;
    const size_t begin = o.out.find("state       ");
    return o.out.substr(begin, o.out.find('\n', begin) - begin);
  };
  const std::string resident = state("--device-mem 512MiB --policy resident");
  EXPECT_GT(resident.size(), 20u);
  EXPECT_EQ(state("--host-mem 1GiB --device-mem " + std::to_string(least())), resident);
  EXPECT_NE(state("--device-mem 512MiB --policy resident --seed 2"), resident);
}

TEST_F(RunTrain, WhatDoesNotFitIsRefusedWithItsFixes) {
  const CommandOutcome o =
      train("--steps 3 --host-mem 1GiB --device-mem " + std::to_string(least() - 1));
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.out.find("DOES NOT FIT"), std::string::npos);
  EXPECT_NE(o.out.find("--device-mem " + std::to_string(least())), std::string::npos) << o.out;
  EXPECT_EQ(o.err.rfind("error: does not fit: device memory is short by 1 bytes", 0), 0u) << o.err;
  EXPECT_EQ(o.err.find('\n'), o.err.size() - 1) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.path("run"))) << "nothing was started";
}

TEST_F(RunTrain, ANonFiniteLossIsCodeSix) {
  const CommandOutcome o = train("--steps 5 --lr 1e30 --warmup 0 --device-mem 512MiB --json");
  EXPECT_EQ(o.code, 6);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("error: the validation loss after step 1 is not finite"), std::string::npos)
      << o.err;
  EXPECT_EQ(metrics().size(), 1u) << "the good step is kept";
}

TEST_F(RunTrain, StateOnNvmeChangesNoLossAndLeavesNoFile) {
  const auto losses = [&] {
    std::vector<double> out;
    for (const auto& line : metrics()) out.push_back(line.at("loss"));
    return out;
  };
  ASSERT_EQ(train("--device-mem 512MiB --steps 30").code, 0);
  const std::vector<double> resident = losses();
  const Folder drive;
  // What the process takes itself, and a part of the state.
  const CommandOutcome planned = strata_command(
      "plan --model gpt2:L5,D32,H2,V256,T16 --device-mem 1GiB --host-mem 1GiB --json");
  const uint64_t external = planned.json()["tiers"]["host"]["by_category"]["external"];
  for (const uint64_t host : {uint64_t{0}, external + (1 << 20)}) {
    const CommandOutcome o =
        train("--policy lru --device-mem 512MiB --nvme-mem 64MiB --steps 30 --json --nvme " +
              drive.path("") + " --host-mem " + std::to_string(host));
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(losses(), resident);
    const auto j = o.json();
    EXPECT_GT(j.at("nvme_read_bytes"), 0u);
    EXPECT_GT(j.at("nvme_write_bytes"), 0u);
    EXPECT_GT(j.at("tiers").at("nvme").at("peak"), 0u);
    EXPECT_TRUE(std::filesystem::is_empty(drive.path("")));
  }
  expect_bytes(metrics().back(), {"used_peak_nvme_bytes", "nvme_read_bytes", "nvme_write_bytes"});
}

TEST_F(RunTrain, MetricsOfAnEarlierRunAreKept) {
  for (const char* steps : {"3", "2", "1"}) {
    ASSERT_EQ(train(std::string("--device-mem 512MiB --steps ") + steps).code, 0);
  }
  EXPECT_EQ(metrics().size(), 1u);
  const auto lines = [&](const std::string& name) {
    const std::string text = folder_.read("run/a/" + name);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines("metrics.1.jsonl"), 3);
  EXPECT_EQ(lines("metrics.2.jsonl"), 2);
}

TEST_F(RunTrain, ShardsOfTheBytesOfATextTrainAsTheText) {
  const std::string text = folder_.read("text.txt");
  const std::vector<uint32_t> bytes(text.begin(), text.end());
  const auto loss = [&] {
    const CommandOutcome o = train("--steps 3 --json --device-mem 512MiB");
    EXPECT_EQ(o.code, 0) << o.err;
    return o.json()["validation_loss"].get<double>();
  };
  const double expected = loss();
  std::filesystem::create_directory(folder_.path("shards"));
  folder_.write("shards/0.bin", shard({bytes.begin(), bytes.begin() + 3001}, 2));
  folder_.write("shards/1.bin", shard({bytes.begin() + 3001, bytes.end()}, 2));
  const std::string text_path = data_;
  data_ = folder_.path("shards");
  EXPECT_EQ(loss(), expected);
  data_ += " " + text_path;
  const CommandOutcome mixed = train("--steps 1");
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.err.find("0.bin' is a token shard"), std::string::npos) << mixed.err;
}

TEST_F(RunTrain, AFolderThatCannotBeMadeIsNamed) {
  const CommandOutcome o = strata_command("train --model gpt2:L1,D32,H2,V256,T16 --data " + data_ +
                                          " --device-mem 512MiB --out " + data_ + "/below");
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("below"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace strata
