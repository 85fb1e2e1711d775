// `strata probe`, run as a user runs it.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

TEST(RunProbe, WritesAMachineFileThatPlanTakes) {
  const Folder folder;
  const std::string file = folder.path("m.json"), drive = folder.path("");
  const CommandOutcome o = strata_command({"probe",
                                           "--model",
                                           "gpt2:L1,D32,H2,V64,T32",
                                           "--seq",
                                           "32",
                                           "--batch",
                                           "1",
                                           "--threads",
                                           "2",
                                           "--array-size",
                                           "64KiB",
                                           "--samples",
                                           "1",
                                           "--seconds",
                                           "0.001",
                                           "--nvme",
                                           drive,
                                           "--file-size",
                                           "4MiB",
                                           "--block-size",
                                           "16KiB",
                                           "--out",
                                           file,
                                           "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json j = o.json();
  EXPECT_EQ(j.at("threads"), 2);
  EXPECT_EQ(j.at("one_processor"), true);
  EXPECT_EQ(j.at("rates").size(), 9u);
  for (const auto& [key, rate] : j["rates"].items()) {
    EXPECT_GT(rate.at("median").get<double>(), 0) << key;
  }
  EXPECT_EQ(strata_command({"plan", "--model", "gpt2:L1,D32,H2,V64,T32", "--machine", file}).code,
            0);
  for (const std::string flag : {"--block-size", "--file-size", "--array-size"}) {
    const CommandOutcome bad = strata_command({"probe", flag, "1000"});
    EXPECT_EQ(bad.code, 2);
    EXPECT_EQ(bad.err.find("error: " + flag + ": "), 0u) << bad.err;
  }
}

}  // namespace
}  // namespace strata
