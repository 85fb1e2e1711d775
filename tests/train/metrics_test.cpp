#include "train/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/errors.hpp"
#include "train/metrics_console.hpp"

namespace strata {
namespace {

StepMetrics example() {
  StepMetrics m;
  m.step = 7;
  m.loss = 2.25;
  m.lr = 1e-5;
  m.grad_norm = 0.1;
  m.tokens = 7168;
  m.tokens_per_second = 1234.5;
  m.step_ms = 829.5;
  m.stall_ms = 82.95;
  m.stalls.on[static_cast<size_t>(Resource::nvme_read)] = 0.25;
  m.stalls.sharing = 0.5;
  m.busy[static_cast<size_t>(Resource::update)] = 0.125;
  m.used_peak_device_bytes = 30000000000;
  m.used_peak_host_bytes = std::numeric_limits<uint64_t>::max();
  m.h2d_bytes = 1;
  m.d2h_bytes = 0;
  return m;
}

class MetricsFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::vector<std::string> lines() const {
    std::ifstream in(path_);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }

  const std::string path_ =
      (std::filesystem::path(::testing::TempDir()) /
       (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".jsonl"))
          .string();
};

TEST_F(MetricsFile, HasOneFlatObjectALine) {
  MetricsWriter writer(path_);
  StepMetrics m = example();
  writer.write(m);
  EXPECT_EQ(lines().size(), 1u) << "a line must be visible at once";
  m.step = 8;
  m.validation_loss = 2.5;
  writer.write(m);
  const auto text = lines();
  ASSERT_EQ(text.size(), 2u);
  const auto first = nlohmann::ordered_json::parse(text[0]);
  const std::vector<std::string> expected = {"step",
                                             "loss",
                                             "lr",
                                             "grad_norm",
                                             "tokens",
                                             "tokens_per_second",
                                             "step_ms",
                                             "stall_ms",
                                             "stall_h2d_ms",
                                             "stall_d2h_ms",
                                             "stall_update_ms",
                                             "stall_nvme_read_ms",
                                             "stall_nvme_write_ms",
                                             "stall_sharing_ms",
                                             "stall_issuer_ms",
                                             "busy_h2d_ms",
                                             "busy_d2h_ms",
                                             "busy_update_ms",
                                             "busy_nvme_read_ms",
                                             "busy_nvme_write_ms",
                                             "used_peak_device_bytes",
                                             "used_peak_host_bytes",
                                             "used_peak_nvme_bytes",
                                             "resident_bytes",
                                             "locked_bytes",
                                             "h2d_bytes",
                                             "d2h_bytes",
                                             "nvme_read_bytes",
                                             "nvme_write_bytes"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : first.items()) {
    keys.push_back(key);
    EXPECT_TRUE(value.is_number()) << key;
  }
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(first["step"], 7);
  EXPECT_EQ(first["loss"], 2.25);
  EXPECT_EQ(first["stall_nvme_read_ms"], 250);
  EXPECT_EQ(first["stall_sharing_ms"], 500);
  EXPECT_EQ(first["busy_update_ms"], 125);
  EXPECT_EQ(first["lr"], 1e-5);
  EXPECT_EQ(first["tokens_per_second"], 1234.5);
  EXPECT_TRUE(first["used_peak_device_bytes"].is_number_integer());
  EXPECT_EQ(first["used_peak_host_bytes"], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(nlohmann::json::parse(text[1])["validation_loss"], 2.5);
}

TEST_F(MetricsFile, WritesNullForWhatIsNotFinite) {
  MetricsWriter writer(path_);
  StepMetrics m = example();
  m.loss = NAN;
  m.grad_norm = INFINITY;
  writer.write(m);
  const auto object = nlohmann::json::parse(lines().at(0));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
}

TEST_F(MetricsFile, StartsAnew) {
  { MetricsWriter(path_).write(example()); }
  MetricsWriter(path_).write(example());
  EXPECT_EQ(lines().size(), 1u);
}

TEST(Metrics, NamesAPathThatCannotBeWritten) {
  try {
    MetricsWriter writer("/nonexistent-directory/metrics.jsonl");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("/nonexistent-directory/metrics.jsonl"),
              std::string::npos);
  }
}

TEST(Metrics, ConsoleLinesAlignWithTheirHeader) {
  ConsoleProgress progress(1000);
  const std::string header = progress.header();
  for (double loss : {2.25, 11.0, 0.001}) {
    StepMetrics m = example();
    m.loss = loss;
    progress.record(m);
    EXPECT_EQ(progress.line(m).size(), header.size()) << progress.line(m);
    EXPECT_EQ(progress.line(m).find('\r'), std::string::npos);
  }
  EXPECT_NE(progress.line(example()).find("7/1000"), std::string::npos);
  EXPECT_NE(progress.line(example()).find(" 10.0%"), std::string::npos);
  StepMetrics m = example();
  m.validation_loss = 1.5;
  EXPECT_NE(progress.line(m).find("validation loss 1.5000"), std::string::npos);
}

TEST(Metrics, EtaIgnoresTheFirstStep) {
  ConsoleProgress progress(101);
  StepMetrics m = example();
  const auto eta = [&](uint64_t step, double ms) {
    m.step = step;
    m.step_ms = ms;
    progress.record(m);
    const std::string line = progress.line(m);
    return line.substr(line.find_last_of(' ') + 1);
  };
  EXPECT_EQ(eta(1, 60000), "1h40m");
  EXPECT_EQ(eta(2, 1000), "1m39s");
  EXPECT_EQ(eta(3, 1000), "1m38s");
  EXPECT_EQ(eta(101, 1000), "0s");
}

TEST(Metrics, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(3600 + 300), "1h05m");
  EXPECT_EQ(format_duration(86400 * 4 + 3 * 3600), "4d03h");
  EXPECT_EQ(format_duration(NAN), "?");
  EXPECT_EQ(format_duration(-1), "?");
}

}  // namespace
}  // namespace strata
