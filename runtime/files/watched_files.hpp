// A file system whose calls may not take for ever.
#pragma once
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "runtime/files/files.hpp"

namespace strata {

/// Passes every call on. A read, write or sync that has not come back in time is told to `on_hang`,
/// from another thread, once: a call into the kernel cannot be taken back, so all that is left is
/// to end the process with a message. Files must be closed before it ends.
class WatchedFiles final : public Files {
 public:
  using HangFn = std::function<void(const std::string& message)>;

  WatchedFiles(Files& below, double timeout_seconds, HangFn on_hang);
  ~WatchedFiles() override;

  ScratchFile open_scratch(const std::string& directory) override;
  uint64_t free_bytes(const std::string& path) override;
  std::unique_ptr<File> open(const std::string& path) override;
  std::unique_ptr<File> create(const std::string& path) override;
  void make_folder(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void sync_folder(const std::string& path) override;
  void remove(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;

 private:
  class WatchedFile;
  struct Call {
    const char* verb;
    const std::string& name;
    uint64_t offset;
    double began;  // seconds
    bool told = false;
  };

  template <class F>
  auto timed(const char* verb, const std::string& name, uint64_t offset, const F& call);
  void watch();

  Files& below_;
  double timeout_;
  HangFn on_hang_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::list<Call> calls_;  // running now
  std::thread watchdog_;
};

/// `real_files()`; a call that takes longer than a minute ends the process with a message and exit
/// code 1.
Files& watched_files();

}  // namespace strata
