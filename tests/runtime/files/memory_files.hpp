// A file system in memory, for tests that need many files quickly.
#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/files/files.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {

/// Folders are what comes before a slash in a name; they need not be made. Files that were removed
/// or renamed stay readable by whoever has them open. Not thread-safe.
class MemoryFiles final : public Files {
 public:
  /// Makes a file, or changes the one there, also for whoever has it open.
  void put(const std::string& path, std::string bytes) {
    auto& content = files_[path];
    if (!content) content = std::make_shared<std::string>();
    *content = std::move(bytes);
  }
  bool has(const std::string& path) const { return files_.count(path) != 0; }
  const std::string& get(const std::string& path) const { return *files_.at(path); }

  ScratchFile open_scratch(const std::string& directory) override {
    return {std::make_unique<MemoryFile>("the unnamed file in " + directory,
                                         std::make_shared<std::string>()),
            false, 4096};
  }
  uint64_t free_bytes(const std::string&) override { return uint64_t{1} << 40; }
  std::unique_ptr<File> open(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) throw io_error("open", path, ENOENT);
    return std::make_unique<MemoryFile>(path, found->second);
  }
  std::unique_ptr<File> create(const std::string& path) override {
    const auto [made, fresh] = files_.try_emplace(path, std::make_shared<std::string>());
    if (!fresh) throw io_error("create", path, EEXIST);
    return std::make_unique<MemoryFile>(path, made->second);
  }
  void make_folder(const std::string&) override {}
  void sync_folder(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override {
    std::vector<std::pair<std::string, Content>> moved;
    for (const auto& [path, content] : files_) {
      if (within(path, from)) moved.emplace_back(to + path.substr(from.size()), content);
    }
    if (moved.empty()) throw io_error(("rename to " + to).c_str(), from, ENOENT);
    remove(from);
    for (auto& [path, content] : moved) files_[path] = std::move(content);
  }
  void remove(const std::string& path) override {
    std::erase_if(files_, [&](const auto& file) { return within(file.first, path); });
  }
  std::vector<std::string> list(const std::string& folder) override {
    std::vector<std::string> names;
    for (const auto& [path, content] : files_) {
      if (path == folder || !within(path, folder)) continue;
      const std::string below = path.substr(folder.size() + 1);
      names.push_back(below.substr(0, below.find('/')));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
  }

 private:
  using Content = std::shared_ptr<std::string>;

  class MemoryFile final : public File {
   public:
    MemoryFile(std::string name, Content content)
        : File(std::move(name)), content_(std::move(content)) {}

    int64_t read(std::byte* to, size_t bytes, uint64_t offset) override {
      if (offset >= content_->size()) return 0;
      const size_t n = std::min<uint64_t>(bytes, content_->size() - offset);
      std::memcpy(to, content_->data() + offset, n);
      return static_cast<int64_t>(n);
    }
    int64_t write(const std::byte* from, size_t bytes, uint64_t offset) override {
      if (content_->size() < offset + bytes) content_->resize(offset + bytes);
      std::memcpy(content_->data() + offset, from, bytes);
      return static_cast<int64_t>(bytes);
    }
    int reserve(uint64_t bytes) override {
      if (content_->size() < bytes) content_->resize(bytes);
      return 0;
    }
    int sync() override { return 0; }
    int64_t size() override { return static_cast<int64_t>(content_->size()); }
    int descriptor() const noexcept override { return -1; }

   private:
    Content content_;
  };

  static bool within(const std::string& path, const std::string& folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  }

  std::map<std::string, Content> files_;
};

}  // namespace strata
