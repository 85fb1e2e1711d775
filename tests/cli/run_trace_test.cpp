// `strata trace`, run as a user runs it.
#include <sys/resource.h>
#include <sys/stat.h>

#include "models/registry.hpp"
#include "offload/trace_file.hpp"
#include "tests/cli/command.hpp"
#include "tests/sanitized.hpp"

namespace strata {
namespace {

constexpr const char* kModel =
    "trace --model gpt2:L2,D32,H2,V96,T16 --seq 12 --batch 2 --dtype bf16 --threads 2";

std::vector<std::string> names_in(const Folder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(RunTrace, WritesTheTraceOfATrainingStep) {
  const CommandOutcome o = strata_command(kModel);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const auto model = make_model("gpt2:L2,D32,H2,V96,T16", {{2, 12, 1}, DType::bf16, 2});
  const TraceFile file = read_trace(o.out, "stdout");
  EXPECT_EQ(file.model, "gpt2:L2,D32,H2,V96,T16 bf16, batch 2 x 12 tokens, 2 threads");
  EXPECT_EQ(file.tokens, 24u);
  EXPECT_EQ(file.params, model->params());
  EXPECT_EQ(file.trace, trace_model(*model, Mode::train));
  EXPECT_EQ(strata_command(std::string(kModel) + " --out -").out, o.out);
}

TEST(RunTrace, WritesAFileInThePlaceOfAnother) {
  const Folder folder;
  const std::string path = folder.write("gpt2.trace", "an older one");
  const CommandOutcome o = strata_command(std::string(kModel) + " -o " + path);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find(path + ": 28 tensors"), std::string::npos) << o.out;
  EXPECT_EQ(folder.read("gpt2.trace"), strata_command(kModel).out);
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"gpt2.trace"});
}

TEST(RunTrace, WhatFailsLeavesTheOldFile) {
  const Folder folder;
  const std::string path = folder.write("gpt2.trace", "an older one");
  const auto small_files = [] {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
  };
  const CommandOutcome o = strata_command(std::string(kModel) + " -o " + path, {}, small_files);
  expect_refused(o, 1, {"gpt2.trace"});
  EXPECT_EQ(folder.read("gpt2.trace"), "an older one");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"gpt2.trace"});
  const auto out = [&](const std::string& to) {
    return strata_command(std::string(kModel) + " -o " + to);
  };
  expect_refused(out(folder.path()), 2, {"--out", folder.path(), "no regular file"});
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(out(pipe), 2, {"--out: " + pipe + " is no regular file"});
  expect_refused(out(folder.path("none/gpt2.trace")), 1, {"none/gpt2.trace"});
  expect_refused(strata_command("trace --model gpt9"), 2, {"'gpt9'", "gpt2-xl"});
  expect_refused(strata_command("trace --model gpt2 --seq 1025"), 2, {"1024 positions"});
}

TEST(RunTrace, AllocatesNothingOfTheModelsSize) {
  if (kSanitized) GTEST_SKIP() << "sanitizers reserve terabytes of addresses";
  const auto little_memory = [] {
    const rlimit limit{uint64_t{3} << 30, uint64_t{3} << 30};  // the weights alone are 5.8 GiB
    ::setrlimit(RLIMIT_AS, &limit);
  };
  const CommandOutcome o =
      strata_command("trace --model gpt2-xl --batch 64 --threads 4", {}, little_memory);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(read_trace(o.out, "stdout").params.size(), 580u);
}

}  // namespace
}  // namespace strata
