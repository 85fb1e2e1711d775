// Files in memory, for tests that open very many.
#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {

/// Only what reading needs: everything else throws.
class MemoryFiles final : public Files {
 public:
  void put(const std::string& path, std::string content) { content_[path] = std::move(content); }

  std::unique_ptr<File> open(const std::string& path) override {
    const auto it = content_.find(path);
    if (it == content_.end()) throw io_error("open", path, ENOENT);
    return std::make_unique<MemoryFile>(path, it->second);
  }
  ScratchFile open_scratch(const std::string& p) override { throw io_error("create", p, ENOTSUP); }
  uint64_t free_bytes(const std::string&) override { return 0; }
  std::unique_ptr<File> create(const std::string& p) override {
    throw io_error("create", p, ENOTSUP);
  }
  void make_folder(const std::string& p) override { throw io_error("create", p, ENOTSUP); }
  void rename(const std::string& p, const std::string&) override {
    throw io_error("rename", p, ENOTSUP);
  }
  void sync_folder(const std::string& p) override { throw io_error("sync", p, ENOTSUP); }
  void remove(const std::string& p) override { throw io_error("remove", p, ENOTSUP); }
  std::vector<std::string> list(const std::string&) override { return {}; }

 private:
  class MemoryFile final : public File {
   public:
    MemoryFile(const std::string& path, const std::string& content)
        : File(path), content_(content) {}

    int64_t read(std::byte* to, size_t bytes, uint64_t offset) override {
      if (offset >= content_.size()) return 0;
      const size_t n = std::min<size_t>(bytes, content_.size() - offset);
      std::memcpy(to, content_.data() + offset, n);
      return static_cast<int64_t>(n);
    }
    int64_t write(const std::byte*, size_t, uint64_t) override { return -EROFS; }
    int reserve(uint64_t) override { return -EROFS; }
    int sync() override { return 0; }
    int64_t size() override { return static_cast<int64_t>(content_.size()); }
    int descriptor() const noexcept override { return -1; }

   private:
    const std::string& content_;
  };

  std::map<std::string, std::string> content_;
};

}  // namespace strata
