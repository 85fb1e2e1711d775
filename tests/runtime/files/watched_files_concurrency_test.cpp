#include "runtime/files/watched_files.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/files/file_io.hpp"
#include "tests/folder.hpp"
#include "tests/runtime/files/faulty_files.hpp"

namespace strata {
namespace {

/// Every call that hangs is told, once, with what and where.
TEST(WatchedFilesConcurrency, ACallThatDoesNotComeBackIsTold) {
  const Folder folder;
  const std::string path = folder.path("file");
  FaultyFiles faulty;
  std::string message;
  std::atomic<int> told{0};
  WatchedFiles files(faulty, 0.05, [&](const std::string& m) {
    message = m;
    ++told;
  });
  const auto file = files.create(path);
  std::vector<std::byte> bytes(100);
  write_all(*file, bytes, 0, "x");
  const auto hang = [&] {
    while (told == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  };
  const auto expect_told = [&](FileCall call, const std::string& what,
                               const std::function<void()>& run) {
    told = 0;
    faulty.faults = {{call, FileFault::Kind::call, 0, "", 1, false, hang}};
    run();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(message.find(what + " has not come back for 0.05 s"), 0u) << message;
  };
  expect_told(FileCall::write, "a write at offset 40 of " + path,
              [&] { write_all(*file, std::span(bytes).first(10), 40, "x"); });
  expect_told(FileCall::read, "a read at offset 7 of " + path,
              [&] { read_all(*file, std::span(bytes).first(10), 7, "x"); });
  expect_told(FileCall::sync, "a sync at offset 0 of " + path, [&] { sync_all(*file); });
  expect_told(FileCall::sync_folder, "a sync at offset 0 of " + folder.path(),
              [&] { files.sync_folder(folder.path()); });
}

TEST(WatchedFilesConcurrency, CallsThatComeBackAreNot) {
  const Folder folder;
  std::atomic<int> told{0};
  {
    WatchedFiles files(real_files(), 0.2, [&](const std::string&) { ++told; });
    const auto file = files.create(folder.path("file"));
    std::vector<std::byte> bytes(100);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
    while (std::chrono::steady_clock::now() < end) {
      write_all(*file, bytes, 0, "x");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace strata
