#include "offload/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/errors.hpp"

namespace strata {
namespace {

Machine sample() {
  Machine m;
  m.name = "a \"machine\"";
  m.note = "by hand";
  m.date = "2026-01-31";
  m.threads = 3;
  m.one_processor = true;
  m.latency_seconds = 2e-6;
  double x = 1;
  for (const MachineRate& r : machine_rates()) {
    m.*r.rate = {x, x / 2, x * 2};
    x *= 3;
  }
  return m;
}

std::string refused(const std::string& text) {
  try {
    read_machine(text, "m.json");
  } catch (const ConfigError& e) {
    std::string message = e.what();
    EXPECT_EQ(message.find("m.json: "), 0u) << message;
    return message;
  }
  return "taken";
}

/// The sample's text with the first `from` replaced.
std::string replaced(const std::string& from, const std::string& to) {
  std::string text = write_machine(sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Machine, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(read_machine(write_machine(sample()), "m.json"), sample());
  Machine m = sample();
  m.note = m.date = "";
  m.nvme_read = m.nvme_write = m.nvme_mixed = {};
  EXPECT_EQ(read_machine(write_machine(m), "m.json"), m);
}

TEST(Machine, ARateMayBeANumber) {
  const std::string text = R"({"strata_machine": 1, "name": "x", "rates": {
    "gemm_fp32_flops_per_second": 1e12, "gemm_bf16_flops_per_second": 2e12,
    "memory_bytes_per_second": 3, "update_bytes_per_second": 4,
    "h2d_bytes_per_second": 5, "d2h_bytes_per_second": 6}})";
  const Machine m = read_machine(text, "m.json");
  EXPECT_EQ(m.gemm_bf16, (MeasuredRate{2e12, 2e12, 2e12}));
  EXPECT_EQ(m.nvme_read, MeasuredRate{});
  EXPECT_EQ(m.threads, 1u);
  EXPECT_FALSE(m.one_processor);
  const VirtualRates r = rates_of(m, DType::bf16);
  EXPECT_EQ(r.flops_per_second, 2e12);
  EXPECT_EQ(r.memory_bytes_per_second, 3);
  EXPECT_EQ(r.update_bytes_per_second, 4);
  EXPECT_EQ(r.h2d_bytes_per_second, 5);
  EXPECT_EQ(r.d2h_bytes_per_second, 6);
  EXPECT_EQ(r.nvme_read_bytes_per_second, VirtualRates{}.nvme_read_bytes_per_second);
  EXPECT_EQ(r.nvme_mixed_bytes_per_second, 0);
  EXPECT_EQ(rates_of(m, DType::f32).flops_per_second, 1e12);
}

TEST(Machine, MediansAndSharingReachTheRates) {
  const Machine m = sample();
  const VirtualRates r = rates_of(m, DType::f32);
  EXPECT_EQ(r.nvme_read_bytes_per_second, m.nvme_read.median);
  EXPECT_EQ(r.nvme_write_bytes_per_second, m.nvme_write.median);
  EXPECT_EQ(r.nvme_mixed_bytes_per_second, m.nvme_mixed.median);
  EXPECT_TRUE(r.one_processor);
  EXPECT_EQ(r.latency_seconds, 2e-6);
}

TEST(Machine, SaysWhatIsWrong) {
  const struct {
    std::string text, why;
  } cases[] = {
      {"", "is not JSON"},
      {"[1]", "the file is not an object"},
      {"{}", "the file has no 'strata_machine'"},
      {replaced("\"strata_machine\": 1", "\"strata_machine\": 2"), "'strata_machine' is not 1"},
      {replaced("\"name\"", "\"Name\""), "the file has no 'name'"},
      {replaced("\"note\"", "\"notes\""), "an unknown key 'notes'"},
      {replaced("\"threads\": 3", "\"threads\": 0"), "'threads' is not a whole number"},
      {replaced("\"threads\": 3", "\"threads\": 1.5"), "'threads' is not a whole number"},
      {replaced("\"one_processor\": true", "\"one_processor\": 1"), "is not true or false"},
      {replaced("2e-06", "-1"), "'latency_seconds' is not a number of at least 0"},
      {replaced("\"update_bytes", "\"updates_bytes"), "'rates' has no 'update_bytes_per_second'"},
      {replaced("\"nvme_read", "\"nvme_reads"), "unknown key 'nvme_reads_bytes_per_second'"},
      {replaced("\"least\": 0.5", "\"least\": 0"), "'least' is not a number above 0"},
      {replaced("\"least\": 0.5", "\"least\": 1.5"), "the median is not between least and most"},
      {replaced("\"least\": 0.5", "\"lest\": 0.5"), "has no 'least'"},
      {replaced("\"most\": 2.0", "\"most\": 2.0, \"mean\": 1"), "unknown key 'mean'"},
      {std::string(1 << 17, ' '), "is no machine file"},
  };
  for (const auto& c : cases) {
    const std::string message = refused(c.text);
    EXPECT_NE(message.find(c.why), std::string::npos) << message << "\nfor " << c.text;
  }
}

std::filesystem::path tree() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

TEST(Machine, TheExampleOfTheDocumentationIsRead) {
  std::ostringstream all;
  all << std::ifstream(tree() / "docs" / "machine-format.md").rdbuf();
  const std::string text = all.str(), fence = "```json\n";
  const size_t begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const size_t at = begin + fence.size();
  const Machine m = read_machine(text.substr(at, text.find("```", at) - at), "the example");
  EXPECT_EQ(m.h2d, (MeasuredRate{2.4e10, 2.2e10, 2.5e10}));
}

TEST(Machine, TheFilesThatComeWithStrataAreRead) {
  uint32_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tree() / "machines")) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const Machine m = read_machine(text.str(), entry.path().string());
    EXPECT_FALSE(m.note.empty());
    EXPECT_GE(m.gemm_bf16.median, m.gemm_fp32.median);
    EXPECT_LE(m.nvme_mixed.median, m.nvme_read.median + m.nvme_write.median);
    ++count;
  }
  EXPECT_GE(count, 3u);
}

}  // namespace
}  // namespace strata
