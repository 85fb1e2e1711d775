#include "cli/fio.hpp"

#include <gtest/gtest.h>

#include "runtime/errors.hpp"

namespace strata {
namespace {

FioJob job(TransferMix mix, bool huge_pages) {
  return {"/proc/1/fd/5", 1 << 30, 1 << 20, 32, 1.5, mix, huge_pages};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Fio, RunsTheSameTransfers) {
  const std::string c = fio_command(job(TransferMix::mixed, true));
  for (const char* part :
       {"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio ", "--filename=/proc/1/fd/5 ",
        "--size=1073741824 ", "--bs=1048576 ", "--iodepth=32 ", "--rw=rw ", "--direct=1 ",
        "--ioengine=io_uring ", "--runtime=1500ms ", "--iomem_align=2m --zero_buffers"}) {
    EXPECT_TRUE(has(c, part)) << part << " is not in " << c;
  }
}

TEST(Fio, MixesAsAsked) {
  EXPECT_FALSE(has(fio_command(job(TransferMix::mixed, true)), "rwmixread"));
  FioJob j = job(TransferMix::mixed, true);
  j.read_percent = 70;
  EXPECT_TRUE(has(fio_command(j), "--rwmixread=70 ")) << fio_command(j);
  j.mix = TransferMix::read;
  EXPECT_FALSE(has(fio_command(j), "rwmixread"));
}

TEST(Fio, AsItComesHasNoTuning) {
  const std::string c = fio_command(job(TransferMix::read, false));
  EXPECT_TRUE(has(c, "--rw=read ")) << c;
  for (const char* part : {"GLIBC_TUNABLES", "iomem_align", "zero_buffers"}) {
    EXPECT_FALSE(has(c, part)) << c;
  }
}

TEST(Fio, ReadsItsAnswer) {
  const std::string answer =
      "fio: a note\n"
      R"({"jobs":[{"error":0,"read":{"bw_bytes":1500},"write":{"bw_bytes":250}}]})";
  EXPECT_EQ(parse_fio(answer), 1750.0);
}

TEST(Fio, SaysWhatIsWrongWithItsAnswer) {
  for (const char* text : {"", "{", "{}", "[]", R"({"jobs":[]})", R"({"jobs":[{"error":0}]})",
                           R"({"jobs":[{"error":"x"}]})"}) {
    EXPECT_THROW(parse_fio(text), IoError) << text;
  }
  try {
    parse_fio(R"({"jobs":[{"error":28}]})");
    FAIL() << "nothing was thrown";
  } catch (const IoError& e) {
    EXPECT_TRUE(has(e.what(), "error 28")) << e.what();
  }
}

}  // namespace
}  // namespace strata
