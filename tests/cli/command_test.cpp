// Wrong command lines, run as a user runs them: one clear message and the right exit code.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

constexpr const char* kShape = " --model gpt2:L1,D32,H2,V256,T16 --batch 2 --threads 1";

std::string text_of(size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "call me ishmael. ";
  return text.substr(0, bytes);
}

TEST(Command, UnknownWordsAreRefused) {
  expect_refused(strata_command("trian"), 2, {"'trian'", "train"});
  expect_refused(strata_command(std::string("plan --batc 2") + kShape), 2, {"'--batc'", "--batch"});
  expect_refused(strata_command("plan --model gpt9"), 2, {"'gpt9'", "gpt2-xl"});
  expect_refused(strata_command("plan --model gpt2:L2,Q3"), 2, {"unknown letter 'Q'"});
  expect_refused(strata_command(std::string("plan --policy oracle") + kShape), 2,
                 {"'oracle'", "lru"});
  expect_refused(strata_command(std::string("plan --policy static:w=2") + kShape), 2,
                 {"static:w=2", "between 0 and 1"});
}

TEST(Command, WrongValuesAreRefused) {
  for (const char* size : {"12XB", "MiB", "1e3GiB", "-", "101%"}) {
    expect_refused(strata_command(std::string("plan --device-mem ") + size + kShape), 2,
                   {"--device-mem", size});
  }
  expect_refused(strata_command(std::string("plan --chunk-size 0") + kShape), 2, {"--chunk-size"});
  expect_refused(strata_command("plan --batch 0 --model gpt2"), 2, {"--batch"});
  expect_refused(strata_command(std::string("plan --dtype fp16") + kShape), 2,
                 {"fp16", "fp32", "bf16"});
  expect_refused(strata_command(std::string("plan --seq 17") + kShape), 2, {"17", "16 positions"});
}

TEST(Command, MoreThanTheMachineHasIsRefused) {
  expect_refused(strata_command(std::string("plan --device-mem 1MiB --host-mem 900TiB") + kShape),
                 2, {"--host-mem", "available"});
}

TEST(Command, WrongTextIsRefused) {
  const Folder folder;
  const auto train = [&](const std::string& data, const std::string& model = kShape) {
    return strata_command("train --steps 1 --out " + folder.path("run") + model + " --data " +
                          data);
  };
  expect_refused(train(folder.path("none.txt")), 2, {"none.txt"});
  expect_refused(train(folder.write("bad.txt", text_of(1000) + "\xff\xfe" + text_of(1000))), 2,
                 {"bad.txt", "UTF-8", "byte 1000"});
  expect_refused(train(folder.write("short.txt", text_of(100))), 2, {"16"});
  expect_refused(train(folder.write("empty.txt", "")), 2, {"empty"});
  expect_refused(train(folder.write("good.txt", text_of(4000)), " --model gpt2:L1,D32,H2,V255,T16"),
                 2, {"255", "256"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("run"))) << "nothing was started";
}

TEST(Command, HelpAndVersionAreNoErrors) {
  for (const char* line : {"--help", "--version", "train --help", "bench step --help"}) {
    const CommandOutcome o = strata_command(line);
    EXPECT_EQ(o.code, 0) << line;
    EXPECT_NE(o.out, "") << line;
    EXPECT_EQ(o.err, "") << line;
  }
}

TEST(Command, PoliciesAreListed) {
  const CommandOutcome text = strata_command("policies");
  EXPECT_EQ(text.code, 0);
  const CommandOutcome o = strata_command("policies --json");
  EXPECT_EQ(o.code, 0);
  std::string names;
  const auto j = o.json();
  for (const auto& p : j.at("policies")) {
    names += std::string(p.at("name")) + " ";
    EXPECT_FALSE(p.at("description").get<std::string>().empty());
    EXPECT_NE(text.out.find(p.at("name").get<std::string>()), std::string::npos);
  }
  EXPECT_EQ(names, "auto resident static lru belady gemini ");
}

}  // namespace
}  // namespace strata
