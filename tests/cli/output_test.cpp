#include "cli/output.hpp"

#include <gtest/gtest.h>

#include <string>

#include "runtime/errors.hpp"

namespace strata {
namespace {

/// A temporary file in place of a standard stream.
class Sink {
 public:
  ~Sink() { std::fclose(file_); }
  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    std::rewind(file_);
    std::string out;
    for (int c; (c = std::fgetc(file_)) != EOF;) out.push_back(static_cast<char>(c));
    return out;
  }

 private:
  std::FILE* file_ = std::tmpfile();
};

TEST(Output, TextGoesToStdoutWithoutJson) {
  Sink out, err;
  Output output(false, out.file(), err.file());
  output.text("a plan");
  output.result("{}");
  EXPECT_EQ(out.text(), "a plan\n");
  EXPECT_EQ(err.text(), "");
}

TEST(Output, ControlCharactersDoNotReachTheTerminal) {
  Sink out, err;
  Output output(false, out.file(), err.file());
  output.text("a\tb\n\x1b[2Jc\x7f \xc2\x9b \xc3\xa9\r");
  EXPECT_EQ(out.text(), "a\tb\n\\x1b[2Jc\\x7f \\x9b \xc3\xa9\\x0d\n");
}

TEST(Output, JsonGetsStdoutForItself) {
  Sink out, err;
  Output output(true, out.file(), err.file());
  output.text("a plan");
  output.result(R"({"fits":true})");
  EXPECT_THROW(output.result("{}"), StateError);
  output.text("done");
  EXPECT_EQ(out.text(), "{\"fits\":true}\n");
  EXPECT_EQ(err.text(), "a plan\ndone\n");
}

TEST(Output, AFullDiskIsAnError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  if (full == nullptr) GTEST_SKIP() << "no /dev/full here";
  Sink err;
  EXPECT_THROW(Output(true, full, err.file()).result("{}"), IoError);
  std::fclose(full);
}

TEST(Output, TablesAlign) {
  EXPECT_EQ(aligned_table({{"tier", "budget", "peak"}, {"device", "2 GiB", "1.9 GiB"}, {"host"}}),
            "tier    budget     peak\n"
            "device   2 GiB  1.9 GiB\n"
            "host");
  EXPECT_EQ(aligned_table({}), "");
}

}  // namespace
}  // namespace strata
