#include "offload/advice.hpp"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr size_t at(Resource r) { return static_cast<size_t>(r); }

TEST(AdviseMemory, FindsTheLeastThatGainsNearlyAll) {
  // A step gets shorter byte by byte, up to 640 more.
  const auto advice = advise_memory(2, 1024, 12, [](uint64_t more) -> std::optional<double> {
    return 2 - static_cast<double>(std::min<uint64_t>(more, 640)) / 640;
  });
  ASSERT_TRUE(advice);
  EXPECT_EQ(advice->least_seconds, 1);
  EXPECT_GE(advice->more, 608u) << "0.95 of what can be gained";
  EXPECT_LE(advice->more, 608u + 16);
  EXPECT_DOUBLE_EQ(advice->step_seconds, 2 - static_cast<double>(advice->more) / 640);
}

TEST(AdviseMemory, AsksNoMoreOftenThanAllowed) {
  for (const uint32_t calls : {2u, 3u, 6u}) {
    uint32_t asked = 0;
    const auto advice = advise_memory(2, uint64_t{1} << 40, calls, [&](uint64_t more) {
      ++asked;
      return std::optional(more > 0 ? 1.0 : 2.0);
    });
    ASSERT_TRUE(advice);
    EXPECT_EQ(asked, calls);
    EXPECT_EQ(advice->predictions, calls);
  }
}

TEST(AdviseMemory, SaysNothingWhereLittleCanBeGained) {
  const auto constant = [](double seconds) {
    return [seconds](uint64_t) { return std::optional(seconds); };
  };
  EXPECT_FALSE(advise_memory(2, 1024, 6, constant(1.97)));
  EXPECT_TRUE(advise_memory(2, 1024, 6, constant(1.95)));
  EXPECT_FALSE(advise_memory(2, 1024, 6, [](uint64_t) { return std::optional<double>(); }));
}

TEST(AdviseMemory, WhatDoesNotFitIsTooLittle) {
  const auto advice = advise_memory(2, 1024, 12, [](uint64_t more) {
    return more < 512 ? std::optional<double>() : std::optional(1.0);
  });
  ASSERT_TRUE(advice);
  EXPECT_GE(advice->more, 512u);
  EXPECT_LE(advice->more, 512u + 16);
}

TEST(CriticalTokens, IsWhereComputeTakesAsLongAsTheLinks) {
  std::array<double, kResources> work{};
  work[at(Resource::compute)] = 1;
  work[at(Resource::h2d)] = 3;
  work[at(Resource::d2h)] = 2;
  VirtualRates rates;
  EXPECT_DOUBLE_EQ(critical_tokens(work, rates, 100).value(), 300) << "each link for itself";
  rates.one_processor = true;
  EXPECT_FALSE(critical_tokens(work, rates, 100)) << "copies are on the same cores";
  work[at(Resource::nvme_read)] = 7;
  EXPECT_DOUBLE_EQ(critical_tokens(work, rates, 100).value(), 200) << "beside 5 s of copies";
  work[at(Resource::nvme_read)] = 4;
  EXPECT_EQ(critical_tokens(work, rates, 100).value(), 0) << "the copies alone hide it";
  work[at(Resource::compute)] = 0;
  EXPECT_FALSE(critical_tokens(work, rates, 100));
}

TEST(RatesOfRun, AreThoseItWorkedAt) {
  MeasuredStep m;
  m.seconds = 3;
  m.stalls.on[at(Resource::nvme_read)] = 0.75;
  m.stalls.sharing = 0.25;
  m.busy[at(Resource::nvme_read)] = 1.5;
  m.busy[at(Resource::update)] = 0.5;
  m.nvme_read_bytes = 3'000'000;
  Prediction p;
  p.work[at(Resource::compute)] = 1;
  p.work[at(Resource::update)] = 1;
  VirtualRates given;
  given.nvme_mixed_bytes_per_second = 1e9;
  const VirtualRates r = rates_of_run(m, p, given);
  EXPECT_DOUBLE_EQ(m.compute(), 2);
  EXPECT_DOUBLE_EQ(r.flops_per_second, given.flops_per_second / 2) << "it took twice as long";
  EXPECT_DOUBLE_EQ(r.memory_bytes_per_second, given.memory_bytes_per_second / 2);
  EXPECT_DOUBLE_EQ(r.update_bytes_per_second, given.update_bytes_per_second * 2);
  EXPECT_DOUBLE_EQ(r.nvme_read_bytes_per_second, 2e6);
  EXPECT_EQ(r.nvme_write_bytes_per_second, given.nvme_write_bytes_per_second) << "nothing known";
  EXPECT_EQ(r.nvme_mixed_bytes_per_second, 0) << "the rate of reads has the writes in it";
  EXPECT_TRUE(r.one_processor);
}

}  // namespace
}  // namespace strata
