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

bool is_shard(const std::string& path) { return path.ends_with(".bin"); }

std::vector<std::string> data_files_in(const std::string& directory) {
  std::vector<std::string> texts, shards;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::string path = entries->path().string();
    const bool text = entries->path().extension() == ".txt";
    if ((text || is_shard(path)) && entries->is_regular_file(error)) {
      (text ? texts : shards).push_back(path);
    }
  }
  if (error) {
    throw ConfigError(
        fmt::format("--data: cannot list directory '{}': {}", directory, error.message()));
  }
  std::vector<std::string>& found = texts.empty() ? shards : texts;
  if (found.empty()) {
    throw ConfigError(
        fmt::format("--data: directory '{}' has no *.txt and no *.bin files", directory));
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
      for (const std::string& file : data_files_in(path)) add(file);
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
  if (files.empty())
    throw ConfigError("--data: no text or shards given; pass a file, pattern or directory");
  return files;
}

bool are_shards(std::span<const std::string> paths) {
  const auto shard = std::find_if(paths.begin(), paths.end(), is_shard);
  const auto text = std::find_if_not(paths.begin(), paths.end(), is_shard);
  if (shard != paths.end() && text != paths.end()) {
    throw ConfigError(
        fmt::format("--data: '{}' is text but '{}' is a token shard, as its name ends in .bin; "
                    "give one kind",
                    *text, *shard));
  }
  return shard != paths.end();
}

}  // namespace strata
