// A whole short measurement; what it says of speed is not looked at.
#include "tests/cli/command.hpp"

namespace strata {
namespace {

TEST(BenchNvme, MeasuresEveryEngineAndLeavesNothing) {
  const Folder folder;
  const CommandOutcome o =
      strata_command("bench nvme " + folder.path("") +
                     " --file-size 4MiB --block-size 64KiB --depth 4 --pairs 1 --seconds 0.02 "
                     "--json");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  for (const char* mix : {"read", "write", "mixed"}) {
    EXPECT_GT(j.at("engines").at("threads").at(std::string(mix) + "_GBps").get<double>(), 0);
    EXPECT_TRUE(j.at("fio").contains(std::string(mix) + "_GBps"));
    EXPECT_TRUE(j.at("ratio").contains(mix));
    EXPECT_EQ(j.at("others_share").at(mix).size(), 1u) << "one for each pair";
  }
  EXPECT_TRUE(j.at("others_share_max").is_number());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST(BenchNvme, NamesADirectoryThatIsNotThere) {
  const Folder folder;
  expect_refused(strata_command("bench nvme " + folder.path("none") + " --file-size 1GiB"), 1,
                 {folder.path("none"), "create it first"});
}

}  // namespace
}  // namespace strata
