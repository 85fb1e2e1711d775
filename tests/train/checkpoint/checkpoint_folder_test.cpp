#include "train/checkpoint/checkpoint_folder.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "tests/folder.hpp"
#include "tests/runtime/files/faulty_files.hpp"

namespace strata {
namespace {

class CheckpointFolderTest : public ::testing::Test {
 protected:
  void add(uint64_t step) {
    const std::string path = checkpoints_.begin(step);
    files_.create(path + "/manifest.json");
    EXPECT_EQ(checkpoints_.commit(step).step, step);
  }
  std::vector<uint64_t> steps() const {
    std::vector<uint64_t> out;
    for (const auto& e : checkpoints_.list()) out.push_back(e.step);
    return out;
  }
  using Steps = std::vector<uint64_t>;

  Folder folder_;
  FaultyFiles files_;
  CheckpointFolder checkpoints_{files_, folder_.path("run/checkpoints")};
};

TEST_F(CheckpointFolderTest, AreListedByStepAndTheLatestIsNamed) {
  EXPECT_EQ(steps(), Steps{});
  for (const uint64_t s : {9, 10, 200'000'000}) add(s);
  files_.make_folder(folder_.path("run/checkpoints/step-x"));
  files_.make_folder(folder_.path("run/checkpoints/step-"));
  files_.make_folder(folder_.path("run/checkpoints/step-00000011"));  // without a manifest
  files_.create(folder_.path("run/checkpoints/step-00000012"));
  EXPECT_EQ(steps(), (Steps{9, 10, 200'000'000}));
  EXPECT_EQ(folder_.read("run/checkpoints/latest"), "step-200000000\n");
  EXPECT_EQ(files_.list(checkpoints_.list()[0].path), std::vector<std::string>{"manifest.json"});
}

TEST_F(CheckpointFolderTest, KeepsTheNewestAndTheMultiples) {
  for (uint64_t s = 1; s <= 10; ++s) add(s);
  checkpoints_.retain(3, 4);
  EXPECT_EQ(steps(), (Steps{4, 8, 9, 10}));
  checkpoints_.retain(1, 0);
  EXPECT_EQ(steps(), Steps{10});
  checkpoints_.retain(5, 0);
  EXPECT_EQ(steps(), Steps{10});
}

TEST_F(CheckpointFolderTest, HalfWrittenOnesAreNoCheckpointsAndGo) {
  add(1);
  checkpoints_.begin(2);
  EXPECT_EQ(steps(), Steps{1});
  checkpoints_.remove_partial();
  EXPECT_EQ(files_.list(checkpoints_.path()),
            (std::vector<std::string>{"latest", "step-00000001"}));
}

/// Whichever call of a commit fails, what was there is still there, and the new one whole or not.
TEST_F(CheckpointFolderTest, ACommitThatFailsLeavesTheOneBefore) {
  add(1);
  for (const FileCall call : {FileCall::sync_folder, FileCall::rename, FileCall::create}) {
    for (uint64_t nth = 1; nth <= 2; ++nth) {
      files_.faults = {{call, FileFault::Kind::error, EIO, "run", nth, false, {}}};
      checkpoints_.begin(2);
      try {
        checkpoints_.commit(2);
      } catch (const IoError&) {
      }
      files_.faults.clear();
      EXPECT_EQ(steps().front(), 1u);
      checkpoints_.remove_partial();
      for (const auto& e : checkpoints_.list()) {
        if (e.step == 2) files_.remove(e.path);
      }
    }
  }
  EXPECT_EQ(steps(), Steps{1});
}

TEST_F(CheckpointFolderTest, OnesThatAreLeftBehindAreRenamed) {
  for (uint64_t s = 1; s <= 3; ++s) add(s);
  EXPECT_EQ(checkpoints_.supersede_after(1), 2u);
  EXPECT_EQ(steps(), Steps{1});
  add(2);
  EXPECT_EQ(checkpoints_.supersede_after(1), 1u);
  EXPECT_EQ(checkpoints_.supersede_after(1), 0u);
  EXPECT_EQ(files_.list(checkpoints_.path()),
            (std::vector<std::string>{"latest", "step-00000001", "superseded-step-00000002-1",
                                      "superseded-step-00000002-2", "superseded-step-00000003-1"}));
}

}  // namespace
}  // namespace strata
