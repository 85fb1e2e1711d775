// What the store does when a directory has no room, or cannot say so.
#include <gtest/gtest.h>

#include <optional>

#include "runtime/errors.hpp"
#include "tests/offload/nvme/nvme_rig.hpp"
#include "tests/runtime/files/faulty_files.hpp"

namespace strata {
namespace {

using testing::TemporaryDirectories;

NvmeOptions options(const TemporaryDirectories& d) {
  NvmeOptions o;
  o.directories = d.paths();
  o.unit_bytes = 64 << 10;
  o.units = 5;
  return o;
}

/// The message when reserving fails this way in the second directory, and so much is free.
std::string refused(int error, std::optional<uint64_t> free = {}) {
  const TemporaryDirectories d(2);
  FaultyFiles files;
  files.faults = {{FileCall::reserve, FileFault::Kind::error, error, d.paths()[1], 1, false, {}}};
  files.free = free;
  std::string message;
  try {
    const NvmeStore store(options(d), files);
  } catch (const IoError& e) {
    message = e.what();
    EXPECT_NE(message.find(d.paths()[1]), std::string::npos) << message;
  }
  EXPECT_TRUE(d.empty());
  return message;
}

TEST(NvmeSpace, AFullDirectoryIsRefusedWithWhatItNeeds) {
  const std::string message = refused(ENOSPC, 1000);
  // The second of two directories has two of five units.
  EXPECT_NE(message.find("(131072 bytes needed, 1000 free)"), std::string::npos) << message;
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
  EXPECT_NE(refused(EDQUOT).find("quota"), std::string::npos);
}

TEST(NvmeSpace, WhereNothingCanBeReservedTheFreeSpaceDecides) {
  EXPECT_EQ(refused(EOPNOTSUPP, uint64_t{1} << 30), "");
  EXPECT_NE(refused(EOPNOTSUPP, 131071).find("(131072 bytes needed, 131071 free)"),
            std::string::npos);
}

}  // namespace
}  // namespace strata
