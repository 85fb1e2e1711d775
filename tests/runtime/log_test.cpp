#include "runtime/log.hpp"

#include <gtest/gtest.h>

#include <string>

namespace strata {
namespace {

class Log : public testing::Test {
 protected:
  void TearDown() override { set_log_level(before_); }

  static std::string written(LogLevel level) {
    set_log_level(level);
    testing::internal::CaptureStderr();
    log_debug("a detail");
    log_info("plan fits {} %s");
    log_warn("a warning");
    log_error("an error");
    return testing::internal::GetCapturedStderr();
  }

 private:
  LogLevel before_ = log_level();
};

TEST_F(Log, WritesLinesFromTheLevelOn) {
  const std::string info = written(LogLevel::info);
  EXPECT_EQ(info.find("a detail"), std::string::npos);
  EXPECT_NE(info.find(" I plan fits {} %s\n"), std::string::npos) << info;
  EXPECT_NE(info.find(" W a warning\n"), std::string::npos) << info;
  EXPECT_NE(info.find(" E an error\n"), std::string::npos) << info;
  const std::string warn = written(LogLevel::warn);
  EXPECT_EQ(warn.find("plan fits"), std::string::npos);
  EXPECT_NE(warn.find("a warning"), std::string::npos);
  EXPECT_NE(written(LogLevel::debug).find(" D a detail\n"), std::string::npos);
  EXPECT_EQ(written(LogLevel::off), "");
}

TEST_F(Log, LevelsHaveNames) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("info"), LogLevel::info);
  EXPECT_EQ(parse_log_level("warn"), LogLevel::warn);
  EXPECT_EQ(parse_log_level("error"), LogLevel::error);
  EXPECT_EQ(parse_log_level("off"), LogLevel::off);
  for (const char* bad : {"", "INFO", "warning", "2"}) {
    EXPECT_EQ(parse_log_level(bad), std::nullopt) << bad;
  }
  for (const LogLevel l : {LogLevel::debug, LogLevel::error, LogLevel::off}) {
    set_log_level(l);
    EXPECT_EQ(log_level(), l);
  }
}

}  // namespace
}  // namespace strata
