#include "cli/bench_curve.hpp"

#include <cmath>

#include "tests/cli/command.hpp"

namespace strata {
namespace {

CurveSample sample(double compute, double update, double nvme, double step, double resident) {
  CurveSample s;
  s.compute = compute;
  s.update = update;
  s.nvme = nvme;
  s.step = step;
  s.resident = resident;
  return s;
}

TEST(CurveSample, ItsRooflineIsTheLargerOfKernelsAndTransfers) {
  const CurveSample drive = sample(2, 1, 6, 9, 3);
  EXPECT_EQ(drive.cpu(), 3);
  EXPECT_EQ(drive.roofline(), 6);
  EXPECT_EQ(drive.x(), 0.5);
  EXPECT_EQ(drive.ratio(), 1.5);
  EXPECT_EQ(drive.retained(), 3.0 / 9);
  const CurveSample kernels = sample(2, 1, 1.5, 3.75, 3);
  EXPECT_EQ(kernels.roofline(), 3);
  EXPECT_EQ(kernels.x(), 2);
  EXPECT_EQ(kernels.ratio(), 1.25);
  EXPECT_TRUE(std::isinf(sample(1, 1, 0, 1, 1).x()));
}

CurvePoint point(const std::string& policy, double x, std::vector<CurveSample> samples) {
  CurvePoint p;
  p.policy = policy;
  p.x = x;
  p.samples = std::move(samples);
  return p;
}

TEST(CurvePoint, RatiosAreTakenRoundByRound) {
  CurvePoint p =
      point("lru", 1, {sample(1, 1, 1, 4, 2), sample(2, 2, 1, 4, 2), sample(3, 5, 1, 12, 6)});
  EXPECT_EQ(p.of(&CurveSample::ratio), (MeasuredRate{1.5, 1, 2}));
  EXPECT_EQ(p.of(&CurveSample::step), (MeasuredRate{4, 4, 12}));
  EXPECT_EQ(p.of(&CurveSample::retained).median, 0.5);
  EXPECT_EQ(p.others_share(), 0);
  p.samples[1].others_share = 0.25;
  p.samples[2].others_share = 0.125;
  EXPECT_EQ(p.others_share(), 0.25);
  EXPECT_FALSE(p.over_fio());
  p.samples[0].over_fio = 0.5;
  p.samples[2].over_fio = 1;
  EXPECT_EQ(p.over_fio(), (MeasuredRate{0.75, 0.5, 1}));
}

TEST(CurvePoint, FioCountsWhereTheFirstPolicyIsMostBoundByTheDrive) {
  const CurveSample plain = sample(1, 1, 4, 4, 2);
  CurveSample with = plain;
  with.over_fio = 0.9;
  const std::vector<CurvePoint> points = {point("auto", 0.1, {plain}), point("auto", 0.5, {with}),
                                          point("lru", 0.2, {with}), point("auto", 0.25, {with})};
  EXPECT_EQ(most_nvme_bound(points), &points[3]);
  EXPECT_EQ(most_nvme_bound(std::span(points).first(1)), nullptr);
}

TEST(KernelLine, GivesTheNearestBatch) {
  const KernelLine line{1, 0.5};
  EXPECT_EQ(line.batch_for(3), 4u);
  EXPECT_EQ(line.batch_for(3.2), 4u);
  EXPECT_EQ(line.batch_for(3.3), 5u);
  EXPECT_EQ(line.batch_for(0.2), 1u) << "at least one sequence";
}

const std::string kTiny =
    "bench curve --model gpt2:L2,D32,H2,V64,T16 --dtype bf16 --clip 0 --pairs 1 --steps 1 "
    "--seconds 0.005 --threads 2 ";

// Whole short measurements; what they say of speed is not looked at.
TEST(BenchCurve, HasAPointForEachPolicyAndForResident) {
  const Folder folder;
  const CommandOutcome o = strata_command(
      kTiny + "--x 1e-7,1e-3 --policy auto --policy lru --json --nvme " + folder.path());
  ASSERT_EQ(o.code, 0) << o.err;
  const auto j = o.json();
  ASSERT_EQ(j.at("points").size(), 3u) << "one sequence is nearest to both";
  EXPECT_EQ(j.at("points").at(0).at("wanted_x"), 0.001) << "the nearer of the two";
  EXPECT_NE(o.err.find("x 1e-07: the nearest is 1 sequence, as of x 0.001"), std::string::npos)
      << o.err;
  const std::vector<std::string> policies = {"auto", "lru", "resident"};
  for (size_t i = 0; i < policies.size(); ++i) {
    const auto& p = j.at("points").at(i);
    EXPECT_EQ(p.at("policy"), policies[i]);
    EXPECT_EQ(p.at("tokens"), 16);
    for (const char* key : {"x", "step_seconds", "roofline_seconds", "ratio", "ratio_min",
                            "ratio_max", "retained", "compute_seconds", "update_seconds"}) {
      EXPECT_GT(p.at(key).get<double>(), 0) << key;
    }
    const double transfers = p.at("nvme_seconds");
    EXPECT_EQ(transfers > 0, policies[i] != "resident");
    EXPECT_TRUE(p.contains("nvme_over_fio"));
  }
  EXPECT_EQ(j.at("points").at(2).at("retained"), 1);
  EXPECT_TRUE(j.contains("nvme_over_fio"));
  EXPECT_EQ(j.at("throttled"), false);
  EXPECT_EQ(j.at("threads"), 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchCurve, SaysThatADriveIsThrottled) {
  const Folder folder;
  const CommandOutcome o = strata_command(
      kTiny + "--x 0.0001 --policy belady --json --nvme-rate 200MB --nvme " + folder.path());
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.json().at("throttled"), true);
  EXPECT_EQ(o.json().at("nvme_rate"), 200000000);
  EXPECT_TRUE(o.json().at("nvme_over_fio").is_null()) << "fio is not throttled";
  EXPECT_NE(o.err.find("throttled"), std::string::npos);
}

TEST(BenchCurve, RefusesBudgetsThatNothingFits) {
  const Folder folder;
  const CommandOutcome o =
      strata_command(kTiny + "--x 1 --policy lru --model-data 0 --nvme " + folder.path());
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_NE(o.err.find("device memory is short"), std::string::npos) << o.err;
}

TEST(BenchCurve, ChecksItsFlags) {
  expect_refused(strata_command("bench curve --nvme /tmp"), 2, {"--model is missing"});
  expect_refused(strata_command("bench curve --model gpt2"), 2, {"--nvme is missing"});
  expect_refused(strata_command(kTiny + "--nvme /tmp --x 1,0"), 2, {"--x", "'0'"});
  expect_refused(strata_command(kTiny + "--nvme /tmp --model-data 1.5"), 2, {"--model-data"});
  expect_refused(strata_command(kTiny + "--nvme /tmp --policy luc"), 2, {"luc", "lru"});
  expect_refused(strata_command(kTiny + "--nvme /tmp --nvme-rate 0"), 2, {"must not be 0"});
  expect_refused(strata_command(kTiny + "--nvme /tmp --step 3"), 2, {"did you mean '--steps'"});
}

}  // namespace
}  // namespace strata
