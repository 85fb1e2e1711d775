#include "offload/roofline.hpp"

#include <gtest/gtest.h>

namespace strata {
namespace {

std::array<double, kResources> work(double compute, double h2d, double d2h, double update,
                                    double read, double write) {
  return {compute, h2d, d2h, update, read, write};
}

VirtualRates drive(double read, double write, double mixed) {
  VirtualRates r;
  r.nvme_read_bytes_per_second = read;
  r.nvme_write_bytes_per_second = write;
  r.nvme_mixed_bytes_per_second = mixed;
  return r;
}

TEST(Roofline, IsThatOfTheBusiestResource) {
  for (size_t i = 0; i < kResources; ++i) {
    auto w = work(1, 2, 3, 4, 5, 6);
    w[i] = 7;
    const Roofline r = roofline(w, {});
    EXPECT_DOUBLE_EQ(r.seconds, 7);
    EXPECT_EQ(r.bottleneck, name_of(static_cast<Resource>(i)));
  }
}

TEST(Roofline, OnOneProcessorItsWorkAddsUp) {
  VirtualRates rates;
  rates.one_processor = true;
  const Roofline r = roofline(work(1, 2, 3, 4, 9, 0), rates);
  EXPECT_DOUBLE_EQ(r.seconds, 10);
  EXPECT_EQ(r.bottleneck, "processor");
  EXPECT_EQ(roofline(work(1, 2, 3, 4, 11, 0), rates).bottleneck, "nvme_read");
}

TEST(Roofline, ADriveDoesBothWaysAtItsMixedRate) {
  // 12 bytes read and 4 written: 4 each way at 3 a second, then 8 read at 4 a second.
  const Roofline r = roofline(work(0, 0, 0, 0, 12.0 / 4, 4.0 / 8), drive(4, 8, 6));
  EXPECT_DOUBLE_EQ(r.seconds, 4 * 2 / 6.0 + 8 / 4.0);
  EXPECT_EQ(r.bottleneck, "nvme");
  // 4 read and 12 written.
  EXPECT_DOUBLE_EQ(roofline(work(0, 0, 0, 0, 4.0 / 4, 12.0 / 8), drive(4, 8, 6)).seconds,
                   4 * 2 / 6.0 + 8 / 8.0);
}

TEST(Roofline, WhatIsNotSlowedByTheOtherWayIsNot) {
  // Reads are slower alone than half the mixed rate: writes alone pay for it.
  EXPECT_DOUBLE_EQ(roofline(work(0, 0, 0, 0, 8.0 / 1, 4.0 / 8), drive(1, 8, 4)).seconds, 8);
}

TEST(Roofline, ADriveThatMixesBadlyTakesTurns) {
  // 4 each way: together 8 s, one after the other 1 s + 0.5 s.
  EXPECT_DOUBLE_EQ(roofline(work(0, 0, 0, 0, 4.0 / 4, 4.0 / 8), drive(4, 8, 1)).seconds, 1.5);
}

TEST(Roofline, OfNoWorkIsNothing) {
  EXPECT_EQ(roofline({}, {}).seconds, 0);
  EXPECT_EQ(roofline({}, {}).bottleneck, "compute");
}

}  // namespace
}  // namespace strata
