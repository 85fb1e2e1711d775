#include "runtime/files/file_io.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "runtime/errors.hpp"
#include "tests/folder.hpp"
#include "tests/runtime/files/faulty_files.hpp"

namespace strata {
namespace {

using Kind = FileFault::Kind;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const IoError& e) {
    return e.what();
  }
  return "no error";
}

class FileIo : public ::testing::Test {
 protected:
  FileIo() : bytes_(100'000) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 % 251);
  }
  std::vector<std::byte> written() {
    std::vector<std::byte> back(bytes_.size());
    read_all(*real_files().open(path_), back, 0, "x");
    return back;
  }

  Folder folder_;
  std::string path_ = folder_.path() + "/file";
  std::vector<std::byte> bytes_;
  FaultyFiles files_;
};

TEST_F(FileIo, ShortAndInterruptedTransfersGoOn) {
  files_.faults = {{FileCall::write, Kind::cut, 0, "", 1, true, {}},
                   {FileCall::read, Kind::cut, 0, "", 1, false, {}},
                   {FileCall::read, Kind::error, EAGAIN, "", 2, false, {}},
                   {FileCall::read, Kind::error, EINTR, "", 3, false, {}},
                   {FileCall::sync, Kind::error, EINTR, "", 1, false, {}}};
  {
    const auto file = files_.create(path_);
    write_all(*file, bytes_, 0, "x");
    sync_all(*file);
  }
  EXPECT_EQ(written(), bytes_);
  std::vector<std::byte> back(bytes_.size());
  read_all(*files_.open(path_), back, 0, "x");
  EXPECT_EQ(back, bytes_);
  EXPECT_GE(files_.fired(), 8u);
}

TEST_F(FileIo, MessagesNameFileOffsetAndOwner) {
  files_.faults = {{FileCall::write, Kind::error, ENOSPC, "", 1, true, {}}};
  const auto file = files_.create(path_);
  const std::string m = message_of([&] { write_all(*file, bytes_, 4096, "m of h.0"); });
  EXPECT_NE(m.find("100000 bytes at offset 4096 of " + path_ + " (m of h.0)"), std::string::npos)
      << m;
  EXPECT_NE(m.find("No space left"), std::string::npos) << m;
}

TEST_F(FileIo, EndlessRetriesAndEarlyEndsAreErrors) {
  write_all(*real_files().create(path_), bytes_, 0, "x");
  std::vector<std::byte> back(bytes_.size() + 1);
  EXPECT_NE(message_of([&] {
              read_all(*real_files().open(path_), back, 0, "x");
            }).find("1 bytes at offset 100000"),
            std::string::npos);
  files_.faults = {{FileCall::read, Kind::error, EAGAIN, "", 1, true, {}}};
  EXPECT_NE(message_of([&] { read_all(*files_.open(path_), back, 0, "x"); }).find("unavailable"),
            std::string::npos);
}

TEST_F(FileIo, ReplacingATextLeavesTheOldOneWhenItFails) {
  replace_text(files_, path_, "one");
  EXPECT_EQ(read_text(files_, path_), "one");
  for (const FileCall call :
       {FileCall::create, FileCall::write, FileCall::sync, FileCall::rename}) {
    files_.faults = {{call, Kind::error, EIO, "", 1, false, {}}};
    EXPECT_THROW(replace_text(files_, path_, "two"), IoError);
    EXPECT_EQ(read_text(files_, path_), "one");
  }
  files_.faults.clear();
  replace_text(files_, path_, "three");
  EXPECT_EQ(read_text(files_, path_), "three");
  EXPECT_EQ(files_.list(folder_.path()), std::vector<std::string>{"file"});
  EXPECT_THROW(read_text(files_, path_, 4), IoError);
}

TEST_F(FileIo, FoldersAreListedMovedAndRemoved) {
  Files& f = real_files();
  const std::string a = folder_.path() + "/a", b = folder_.path() + "/b";
  EXPECT_TRUE(f.list(a).empty());
  f.make_folder(a + "/deep");
  f.make_folder(a);
  f.create(a + "/y");
  f.create(a + "/x");
  EXPECT_THROW(f.create(a + "/x"), IoError);
  EXPECT_THROW(f.make_folder(a + "/x"), IoError);
  EXPECT_THROW(f.open(a), IoError);
  EXPECT_EQ(f.list(a), (std::vector<std::string>{"deep", "x", "y"}));
  f.rename(a, b);
  f.sync_folder(folder_.path());
  EXPECT_TRUE(f.list(a).empty());
  EXPECT_EQ(f.list(b).size(), 3u);
  f.remove(b);
  f.remove(b);
  EXPECT_TRUE(f.list(folder_.path()).empty());
}

}  // namespace
}  // namespace strata
