#include "runtime/memory.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/errors.hpp"
#include "runtime/machine_files.hpp"

namespace strata {
namespace memory_files {
namespace {

/// The number at the start of `text` after blanks, and what follows it.
std::optional<size_t> leading_number(std::string_view text, std::string_view& rest) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  return value;
}

/// Cuts the first line off.
std::string_view next_line(std::string_view& text) noexcept {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    const size_t end = list.find(',');
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return false;
}

}  // namespace

std::optional<size_t> parse_kilobytes(std::string_view file, std::string_view key) noexcept {
  while (!file.empty()) {
    std::string_view line = next_line(file);
    if (!line.starts_with(key) || line.substr(key.size(), 1) != ":") continue;
    std::string_view unit;
    const auto value = leading_number(line.substr(key.size() + 1), unit);
    if (!value || unit != " kB" || *value > SIZE_MAX / 1024) return std::nullopt;
    return *value * 1024;
  }
  return std::nullopt;
}

std::optional<size_t> parse_stat(std::string_view file, std::string_view key) noexcept {
  while (!file.empty()) {
    std::string_view line = next_line(file);
    if (!line.starts_with(key) || line.substr(key.size(), 1) != " ") continue;
    std::string_view rest;
    const auto value = leading_number(line.substr(key.size()), rest);
    return rest.empty() ? value : std::nullopt;
  }
  return std::nullopt;
}

std::optional<size_t> parse_limit(std::string_view file) noexcept {
  // v1 says "no limit" by the largest multiple of the page size that an int64 holds.
  constexpr size_t kNoLimit = size_t{1} << 62;
  std::string_view rest;
  const auto value = leading_number(file, rest);
  if (!value || *value >= kNoLimit || rest.find_first_not_of(" \t\n") != std::string_view::npos) {
    return std::nullopt;
  }
  return value;
}

size_t left_in_group(size_t limit, size_t use, size_t inactive_file) noexcept {
  const size_t needed = use - std::min(use, inactive_file);
  return limit - std::min(limit, needed);
}

Groups parse_groups(std::string_view file, std::string_view controller) {
  Groups groups;
  std::optional<std::string> own;
  while (!file.empty()) {
    // hierarchy:controllers:path
    const std::string_view line = next_line(file);
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = line.substr(second + 1);
    if (has_word(controllers, controller)) {
      groups.v2 = false;
      own = path;
      break;
    }
    if (controllers.empty()) own = path;
  }
  if (!own) return groups;
  for (std::string path = *own == "/" ? "" : *own;; path.resize(path.rfind('/'))) {
    groups.paths.push_back(path);
    if (path.rfind('/') == std::string::npos) break;
  }
  if (!groups.paths.back().empty()) groups.paths.emplace_back();
  return groups;
}

}  // namespace memory_files

namespace {

size_t kilobytes_of(const char* path, const char* key) {
  const auto text = read_machine_file(path);
  const auto value = text ? memory_files::parse_kilobytes(*text, key) : std::nullopt;
  if (!value) {
    throw IoError(std::string("no ") + key + " in " + path +
                  "; Strata needs the proc file system of Linux to know how much memory there is");
  }
  return *value;
}

/// What one group leaves; nothing when it has no limit or cannot be read.
std::optional<GroupMemory> left_in(const std::string& folder, bool v2) {
  const auto limit_text =
      read_machine_file(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto use_text =
      read_machine_file(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit_text || !use_text) return std::nullopt;
  const auto limit = memory_files::parse_limit(*limit_text);
  const auto use = memory_files::parse_limit(*use_text);
  if (!limit || !use) return std::nullopt;
  const auto stat = read_machine_file(folder + "/memory.stat").value_or("");
  const auto cache = memory_files::parse_stat(stat, v2 ? "inactive_file" : "total_inactive_file");
  return GroupMemory{*limit, memory_files::left_in_group(*limit, *use, cache.value_or(0))};
}

}  // namespace

std::optional<GroupMemory> tightest_memory_group() {
  const auto groups =
      memory_files::parse_groups(read_machine_file("/proc/self/cgroup").value_or(""));
  const std::string mount = groups.v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
  std::optional<GroupMemory> tightest;
  for (const std::string& path : groups.paths) {
    const auto group = left_in(mount + path, groups.v2);
    if (group && (!tightest || group->left < tightest->left)) tightest = group;
  }
  return tightest;
}

size_t available_host_memory() {
  const size_t available = kilobytes_of("/proc/meminfo", "MemAvailable");
  const auto group = tightest_memory_group();
  return group ? std::min(available, group->left) : available;
}

size_t resident_bytes() { return kilobytes_of("/proc/self/status", "VmRSS"); }

size_t locked_bytes() {
  constexpr const char* kStatus = "/proc/self/status";
  return std::min(kilobytes_of(kStatus, "VmLck") + kilobytes_of(kStatus, "VmPin"),
                  resident_bytes());
}

size_t peak_resident_bytes() { return kilobytes_of("/proc/self/status", "VmHWM"); }

}  // namespace strata
