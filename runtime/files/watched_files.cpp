#include "runtime/files/watched_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "runtime/clock.hpp"

namespace strata {
/// Runs a call into the file system under watch.
template <class F>
auto WatchedFiles::timed(const char* verb, const std::string& name, uint64_t offset,
                         const F& call) {
  std::list<Call> mine;
  mine.push_back({verb, name, offset, seconds_now()});
  const auto at = mine.begin();
  {
    const std::lock_guard lock(mutex_);
    calls_.splice(calls_.end(), mine);
  }
  struct Done {
    WatchedFiles& files;
    std::list<Call>::iterator call;
    ~Done() {
      const std::lock_guard lock(files.mutex_);
      files.calls_.erase(call);
    }
  } const done{*this, at};
  return call();
}

class WatchedFiles::WatchedFile final : public File {
 public:
  WatchedFile(WatchedFiles& files, std::unique_ptr<File> below)
      : File(below->name()), files_(files), below_(std::move(below)) {}

  int64_t read(std::byte* to, size_t bytes, uint64_t offset) override {
    return files_.timed("read", name(), offset, [&] { return below_->read(to, bytes, offset); });
  }
  int64_t write(const std::byte* from, size_t bytes, uint64_t offset) override {
    return files_.timed("write", name(), offset,
                        [&] { return below_->write(from, bytes, offset); });
  }
  int reserve(uint64_t bytes) override { return below_->reserve(bytes); }
  int sync() override {
    return files_.timed("sync", name(), 0, [&] { return below_->sync(); });
  }
  int64_t size() override { return below_->size(); }
  int descriptor() const noexcept override { return below_->descriptor(); }

 private:
  WatchedFiles& files_;
  std::unique_ptr<File> below_;
};

WatchedFiles::WatchedFiles(Files& below, double timeout_seconds, HangFn on_hang)
    : below_(below),
      timeout_(timeout_seconds),
      on_hang_(std::move(on_hang)),
      watchdog_([this] { watch(); }) {}

WatchedFiles::~WatchedFiles() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  watchdog_.join();
}

void WatchedFiles::watch() {
  const auto period = std::chrono::duration<double>(std::min(timeout_ / 4, 1.0));
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, period, [this] { return ends_; })) {
    for (Call& c : calls_) {
      if (c.told || seconds_now() - c.began < timeout_) continue;
      c.told = true;
      on_hang_(
          fmt::format("a {} at offset {} of {} has not come back for {} s; the drive hangs: "
                      "look at the kernel's log, or use another; checkpoints that were saved "
                      "before are as they were",
                      c.verb, c.offset, c.name, timeout_));
    }
  }
}

ScratchFile WatchedFiles::open_scratch(const std::string& directory) {
  ScratchFile s = below_.open_scratch(directory);
  s.file = std::make_unique<WatchedFile>(*this, std::move(s.file));
  return s;
}

uint64_t WatchedFiles::free_bytes(const std::string& path) { return below_.free_bytes(path); }

std::unique_ptr<File> WatchedFiles::open(const std::string& path) {
  return std::make_unique<WatchedFile>(*this, below_.open(path));
}

std::unique_ptr<File> WatchedFiles::create(const std::string& path) {
  return std::make_unique<WatchedFile>(*this, below_.create(path));
}

void WatchedFiles::make_folder(const std::string& path) { below_.make_folder(path); }

void WatchedFiles::rename(const std::string& from, const std::string& to) {
  timed("rename", from, 0, [&] { below_.rename(from, to); });
}

void WatchedFiles::sync_folder(const std::string& path) {
  timed("sync", path, 0, [&] { below_.sync_folder(path); });
}

void WatchedFiles::remove(const std::string& path) { below_.remove(path); }

std::vector<std::string> WatchedFiles::list(const std::string& path) { return below_.list(path); }

Files& watched_files() {
  constexpr double kSeconds = 60;
  // Never destroyed: its thread may be in the middle of telling.
  static auto& files = *new WatchedFiles(real_files(), kSeconds, [](const std::string& message) {
    std::fprintf(stderr, "error: %s\n", message.c_str());
    ::_exit(1);
  });
  return files;
}

}  // namespace strata
