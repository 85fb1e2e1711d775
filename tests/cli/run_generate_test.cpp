// `strata generate` and `strata eval`, run as a user runs them.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

class RunGenerate : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    data_ = folder_.write("text.txt", text);
  }

  /// Trains a run of a vocabulary; what it says.
  nlohmann::json train(const std::string& vocabulary) const {
    const CommandOutcome o = strata_command(
        "train --model gpt2:L5,D32,H2,V" + vocabulary +
        ",T80 --seq 16 --batch 2 --threads 2 --lr 5e-3 --steps 12 --eval-batches 1000 --json "
        "--data " +
        data_ + " --out " + run_);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.json();
  }
  CommandOutcome generate(const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {"generate", run_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return strata_command(arguments);
  }
  /// Of the device, when weights stream from elsewhere: as the refusal of less says.
  std::string least(const std::string& line) const {
    const CommandOutcome o = strata_command(line + " --device-mem 1000");
    EXPECT_EQ(o.code, 3) << o.err;
    const size_t at = o.err.find("minimum ") + 8;
    return std::to_string(std::stoull(o.err.substr(at)));
  }

  Folder folder_;
  std::string data_, run_ = folder_.path("run");
};

TEST_F(RunGenerate, TheSameTextWhereverTheWeightsAre) {
  train("256");
  const CommandOutcome all = generate({"--prompt", "line \xc3\xa9", "--tokens", "90", "--json"});
  ASSERT_EQ(all.code, 0) << all.err;
  const auto j = all.json();
  EXPECT_EQ(j.at("step"), 12u);
  EXPECT_EQ(j.at("prompt"), (std::vector<int>{'l', 'i', 'n', 'e', ' ', 0xc3, 0xa9}));
  EXPECT_EQ(j.at("tokens").size(), 90u);
  const std::string text = j.at("text");
  EXPECT_EQ(text.rfind("line \xc3\xa9", 0), 0u) << text;
  EXPECT_EQ(all.err, text + "\n") << "text goes to stderr";

  const std::string line = "generate " + run_ + " --host-mem 1GiB";
  const CommandOutcome few =
      generate({"--prompt", "line \xc3\xa9", "--tokens", "90", "--json", "--host-mem", "1GiB",
                "--device-mem", least(line), "--threads", "1"});
  ASSERT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(few.json()["tokens"], j["tokens"]);
  const auto device = few.json()["tiers"]["device"];
  EXPECT_LE(device["peak"], device["budget"]);
  EXPECT_LT(device["peak"], j["tiers"]["device"]["peak"]);

  const CommandOutcome plain = generate({"--prompt", "line \xc3\xa9", "--tokens", "90"});
  EXPECT_EQ(plain.out, text + "\n");
  EXPECT_EQ(plain.err, "");
  EXPECT_NE(generate({"--prompt", "line \xc3\xa9", "--tokens", "90", "--seed", "2"}).out,
            plain.out);
  const CommandOutcome bare = generate({"--tokens", "5"});
  EXPECT_EQ(bare.code, 0) << bare.err;
  EXPECT_NE(bare.out.substr(0, 1), "\n") << "only a prompt that was given is shown";
}

TEST_F(RunGenerate, TokensThatAreNoBytesAreShownAsIds) {
  train("300");
  const CommandOutcome o =
      generate({"--prompt", "5 299  0", "--tokens", "4", "--temperature", "0"});
  ASSERT_EQ(o.code, 0) << o.err;
  std::istringstream in(o.out);
  std::vector<int> ids;
  for (int id; in >> id;) ids.push_back(id);
  ASSERT_EQ(ids.size(), 7u) << o.out;
  EXPECT_EQ(std::vector<int>(ids.begin(), ids.begin() + 3), (std::vector<int>{5, 299, 0}));
  EXPECT_EQ(generate({"--prompt", "5 299 0", "--tokens", "4", "--top-k", "1"}).out, o.out);
  expect_refused(generate({"--prompt", "5 300"}), 2, {"token 300", "vocabulary of 300"});
  expect_refused(generate({"--prompt", "5 x"}), 2, {"--prompt", "x"});
  expect_refused(generate({}), 2, {"--prompt", "ids"});
}

TEST_F(RunGenerate, EvalFindsTheValidationLossOfTheRun) {
  const double loss = train("256").at("validation_loss");
  const std::string line = "eval " + run_ + " --host-mem 1GiB";
  for (const std::string& flags : {std::string(), " --threads 1 --device-mem " + least(line)}) {
    const CommandOutcome o = strata_command(line + " --json" + flags);
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.json().at("loss").get<double>(), loss) << flags;
    EXPECT_EQ(o.json()["step"], 12u);
    EXPECT_GT(o.json()["tokens"], 500u);
  }
  const CommandOutcome part = strata_command("eval " + run_ + " --batches 2 --json");
  EXPECT_EQ(part.json()["tokens"], 2u * 2 * 16);
  const std::string other = folder_.write("other.txt", std::string(4000, 'q'));
  EXPECT_GT(strata_command("eval " + run_ + " --json --data " + other).json()["loss"], loss);
}

TEST_F(RunGenerate, WhatCannotBeUsedIsRefused) {
  expect_refused(strata_command("generate " + run_), 2, {"no folder"});
  expect_refused(strata_command("eval " + run_), 2, {"no folder"});
  train("256");
  expect_refused(generate({"--device-mem", "1MiB"}), 3, {"device", "short by"});
  expect_refused(strata_command("eval " + run_ + " --data " + folder_.path("none")), 2, {"none"});
}

}  // namespace
}  // namespace strata
