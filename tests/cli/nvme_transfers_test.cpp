#include "cli/nvme_transfers.hpp"

#include <gtest/gtest.h>

#include "offload/nvme/rate_limit.hpp"
#include "tests/folder.hpp"

namespace strata {
namespace {

constexpr uint64_t kUnit = 64 << 10;

NvmeOptions options(const Folder& folder) {
  NvmeOptions o;
  o.directories = {folder.path()};
  o.unit_bytes = kUnit;
  o.units = 64;
  o.depth = 4;
  return o;
}

TEST(NvmeTransfers, MovesAsManyUnitsEachWayAsAskedFor) {
  const Folder folder;
  NvmeTransfers t(options(folder));
  const uint64_t read = t.store().bytes_read(), written = t.store().bytes_written();
  EXPECT_GT(t.seconds_to_move(30, 13, 0), 0);
  EXPECT_EQ(t.store().bytes_read() - read, 30 * kUnit);
  EXPECT_EQ(t.store().bytes_written() - written, 13 * kUnit);
  t.seconds_to_move(7, 0, 0);
  EXPECT_EQ(t.store().bytes_read() - read, 37 * kUnit);
  EXPECT_EQ(t.store().bytes_written() - written, 13 * kUnit);
  EXPECT_EQ(t.seconds_to_move(0, 0, 0), 0);
}

// However slow or busy the machine is, a throttled drive is never faster than its rate.
TEST(NvmeTransfers, AThrottledDriveIsNoFasterThanItsRate) {
  const Folder folder;
  NvmeOptions o = options(folder);
  o.bytes_per_second = 64e6;
  NvmeTransfers t(o);
  EXPECT_GE(t.seconds_to_move(32, 32, 0), 64 * kUnit / 64e6 - 1e-9 * RateLimit::kKept);
}

}  // namespace
}  // namespace strata
