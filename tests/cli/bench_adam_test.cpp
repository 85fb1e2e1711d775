#include "cli/bench_adam.hpp"

#include "tests/cli/command.hpp"

namespace strata {
namespace {

TEST(BenchAdam, ComparesWithinPairsToTheStoresThatAreFasterOverall) {
  const std::vector<AdamPair> pairs = {
      {2.0, {1.0, 3.0, 4.0}}, {4.0, {3.0, 1.0, 2.0}}, {1.0, {0.5, 2.0, 0.75}}};
  const AdamSummary r = summarize(pairs);
  EXPECT_EQ(r.faster, kernels::StreamStores::temporal);
  EXPECT_EQ(r.median.adamw, 2.0);
  EXPECT_EQ(r.median.stream, (std::array{1.0, 2.0, 2.0}));
  EXPECT_EQ(r.fractions, (std::vector<double>{0.5, 0.75, 0.5}));
  EXPECT_EQ(r.fraction, 0.5);
  EXPECT_EQ(r.prefetched_fraction, 0.75);

  const AdamSummary other = summarize(std::vector<AdamPair>{{4.0, {3.0, 1.0, 2.0}}});
  EXPECT_EQ(other.faster, kernels::StreamStores::non_temporal);
  EXPECT_EQ(other.fraction, 0.25);
}

// A whole short measurement; what it says of speed is not looked at.
TEST(BenchAdam, MeasuresBothDtypes) {
  const CommandOutcome o = strata_command("bench adam --bytes 1MiB --pairs 1 --threads 2 --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  EXPECT_EQ(j.at("threads"), 2);
  EXPECT_EQ(j.at("pairs"), 1);
  for (const std::string dtype : {"fp32", "bf16"}) {
    EXPECT_GT(j.at("fraction_" + dtype).get<double>(), 0);
    const auto& d = j.at(dtype);
    EXPECT_GE(d.at("array_bytes"), 1 << 20);
    for (const char* key :
         {"adamw_GBps", "stream_temporal_GBps", "stream_non_temporal_GBps",
          "stream_prefetched_GBps", "fraction_min", "fraction_max", "prefetched_fraction"}) {
      EXPECT_GT(d.at(key).get<double>(), 0) << key;
    }
    EXPECT_TRUE(d.contains("others_share"));
  }
  for (const char* part : {"fp32", "bf16", "least, most", "CPUs others took"}) {
    EXPECT_NE(o.err.find(part), std::string::npos) << o.err;
  }
}

TEST(BenchAdam, RefusesMoreThanThereIs) {
  expect_refused(strata_command("bench adam --bytes 900TiB"), 3, {"bench adam", "lower --bytes"});
}

}  // namespace
}  // namespace strata
