// `strata inspect`, run as a user runs it.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

class RunInspect : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    const CommandOutcome o = strata_command(
        "train --model gpt2:L2,D32,H2,V256,T16 --dtype bf16 --batch 2 --threads 1 --steps 2 "
        "--host-mem 1GiB --device-mem 1GiB --data " +
        folder_.write("text.txt", text) + " --out " + folder_.path("run"));
    ASSERT_EQ(o.code, 0) << o.err;
  }
  Folder folder_;
};

TEST_F(RunInspect, ShowsTheTensorsOfARunACheckpointOrAFile) {
  const std::string checkpoint = folder_.path("run/checkpoints/step-00000002");
  const CommandOutcome of_run = strata_command("inspect " + folder_.path("run") + " --json");
  ASSERT_EQ(of_run.code, 0) << of_run.err;
  const auto j = of_run.json();
  EXPECT_EQ(j["step"], 2u);
  EXPECT_EQ(j["tokens"], 2u * 2 * 16);
  EXPECT_EQ(j["model"], "gpt2:L2,D32,H2,V256,T16");
  EXPECT_EQ(j["checkpoint"], checkpoint);
  const auto& first = j["tensors"][0];
  EXPECT_EQ(first["name"], "wte.weight");
  EXPECT_EQ(first["dtype"], "BF16");
  EXPECT_EQ(first["shape"], nlohmann::json({256, 32}));
  EXPECT_LT(first["least"].get<double>(), -0.04);
  EXPECT_GT(first["most"].get<double>(), 0.04);
  EXPECT_LT(first["most"].get<double>(), 0.2) << "deviation 0.02";
  EXPECT_EQ(first["damaged"], false);
  EXPECT_EQ(j["tensors"].size() % 4, 0u) << "weight, remainder, m and v of each";
  const CommandOutcome of_one = strata_command("inspect " + checkpoint + " --json");
  EXPECT_EQ(of_one.json()["tensors"], j["tensors"]);
  const CommandOutcome of_file =
      strata_command("inspect " + checkpoint + "/model.safetensors --json");
  EXPECT_EQ(of_file.json()["tensors"].size(), j["tensors"].size() / 4);
  const CommandOutcome table = strata_command("inspect " + folder_.path("run"));
  for (const char* part :
       {"Step        2, after 64 tokens", "m.h.1.mlp.c_fc.weight", "256x32", " tensors, "}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in\n" << table.out;
  }
}

TEST_F(RunInspect, FindsDamage) {
  const std::string path = folder_.path("run/checkpoints/step-00000002/model.safetensors");
  std::string content = folder_.read("run/checkpoints/step-00000002/model.safetensors");
  content[content.size() - 10] ^= 1;
  folder_.write("run/checkpoints/step-00000002/model.safetensors", content);
  const CommandOutcome o = strata_command("inspect " + folder_.path("run"));
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.err.find("in " + path + " does not hold what was saved"), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("DAMAGED"), std::string::npos);
  EXPECT_EQ(strata_command("inspect " + folder_.path("none")).code, 2);
  EXPECT_EQ(strata_command("inspect " + folder_.path("text.txt")).code, 2);
}

}  // namespace
}  // namespace strata
