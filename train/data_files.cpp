#include "train/data_files.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/errors.hpp"

namespace strata {
namespace {

std::string reason() { return std::strerror(errno); }

/// Nothing when there is no such file.
std::optional<struct stat> stat_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) return info;
  if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
  throw ConfigError(fmt::format("--data: cannot look at '{}': {}", path, reason()));
}

std::vector<std::string> text_files_in(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (entries->path().extension() == ".txt" && entries->is_regular_file(error)) {
      found.push_back(entries->path().string());
    }
  }
  if (error) {
    throw ConfigError(
        fmt::format("--data: cannot list directory '{}': {}", directory, error.message()));
  }
  if (found.empty()) {
    throw ConfigError(fmt::format("--data: directory '{}' has no *.txt files", directory));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> glob_matches(const std::string& pattern) {
  glob_t result{};
  const int code = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &result);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> release(&result, ::globfree);
  if (code == GLOB_NOMATCH) {
    const bool is_pattern = pattern.find_first_of("*?[") != std::string::npos;
    throw ConfigError(is_pattern ? fmt::format("--data: no file matches '{}'", pattern)
                                 : fmt::format("--data: there is no file '{}'", pattern));
  }
  if (code != 0) throw ConfigError(fmt::format("--data: cannot expand '{}'", pattern));
  std::vector<std::string> found(result.gl_pathv, result.gl_pathv + result.gl_pathc);
  std::sort(found.begin(), found.end());  // glob's own order depends on the locale
  return found;
}

}  // namespace

std::vector<std::string> resolve_data_files(std::span<const std::string> arguments) {
  std::vector<std::string> files;
  std::map<std::pair<dev_t, ino_t>, std::string> seen;
  const auto add = [&](const std::string& path) {
    const auto info = stat_of(path);
    if (!info) throw ConfigError(fmt::format("--data: there is no file '{}'", path));
    if (!S_ISREG(info->st_mode)) {
      throw ConfigError(fmt::format("--data: '{}' is not a regular file or directory", path));
    }
    const auto [first, fresh] = seen.try_emplace({info->st_dev, info->st_ino}, path);
    if (!fresh) {
      throw ConfigError(fmt::format(
          "--data: '{}' is given twice (first as '{}'); validation would see trained text", path,
          first->second));
    }
    files.push_back(path);
  };
  const auto add_file_or_directory = [&](const std::string& path) {
    const auto info = stat_of(path);
    if (info && S_ISDIR(info->st_mode)) {
      for (const std::string& file : text_files_in(path)) add(file);
    } else {
      add(path);
    }
  };
  for (const std::string& argument : arguments) {
    if (argument.empty()) throw ConfigError("--data: a file name is empty");
    if (stat_of(argument)) {
      add_file_or_directory(argument);
    } else {
      for (const std::string& match : glob_matches(argument)) add_file_or_directory(match);
    }
  }
  if (files.empty()) throw ConfigError("--data: no text given; pass a file, pattern or directory");
  return files;
}

}  // namespace strata
