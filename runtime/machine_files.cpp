#include "runtime/machine_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <vector>

namespace strata {

std::optional<std::string> read_machine_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  std::string text;
  char part[4096];
  ssize_t n;
  while ((n = ::read(fd, part, sizeof part)) != 0) {
    if (n > 0) {
      text.append(part, static_cast<size_t>(n));
    } else if (errno != EINTR) {
      break;
    }
  }
  ::close(fd);
  return n == 0 ? std::optional(text) : std::nullopt;
}

namespace machine_files {
namespace {

constexpr std::string_view kBlanks = " \t\n";

std::string_view trimmed(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// Cuts off what is before the first of `ends`, and that.
std::string_view take(std::string_view& text, std::string_view ends) noexcept {
  const size_t end = text.find_first_of(ends);
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return first;
}

std::optional<uint64_t> leading_number(std::string_view& text) noexcept {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

/// Undoes `\040` for a blank and the like.
std::string unescaped(std::string_view text) {
  std::string out;
  const auto digit = [&](size_t at) { return text[at] >= '0' && text[at] <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_read_only(std::string_view options) noexcept {
  while (!options.empty()) {
    if (take(options, ",") == "ro") return true;
  }
  return false;
}

}  // namespace

std::optional<std::string_view> parse_field(std::string_view file, std::string_view key) noexcept {
  while (!file.empty()) {
    std::string_view line = take(file, "\n");
    if (!line.starts_with(key)) continue;
    line = trimmed(line.substr(key.size()));
    if (line.starts_with(':')) return trimmed(line.substr(1));
  }
  return std::nullopt;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    if (take(list, kBlanks) == word) return true;
  }
  return false;
}

std::optional<std::string_view> parse_selected(std::string_view file) noexcept {
  const size_t begin = file.find('[');
  if (begin == std::string_view::npos) return std::nullopt;
  const size_t end = file.find(']', begin);
  if (end == std::string_view::npos || end == begin + 1) return std::nullopt;
  return file.substr(begin + 1, end - begin - 1);
}

std::optional<bool> has_capability(std::string_view digits, unsigned n) noexcept {
  digits = trimmed(digits);
  uint64_t set = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), set, 16);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return n < 64 && (set >> n & 1) != 0;
}

std::optional<uint64_t> parse_number(std::string_view file) noexcept {
  file = trimmed(file);
  const auto value = leading_number(file);
  return file.empty() ? value : std::nullopt;
}

std::optional<std::string> huge_page_setting(std::string_view all_sizes,
                                             std::string_view two_mib) noexcept {
  const auto own = parse_selected(two_mib);
  const auto chosen = own && *own != "inherit" ? own : parse_selected(all_sizes);
  if (chosen != "always" && chosen != "madvise" && chosen != "never") return std::nullopt;
  return std::string(*chosen);
}

std::optional<bool> kernel_at_least(std::string_view release, uint64_t major,
                                    uint64_t minor) noexcept {
  const auto has_major = leading_number(release);
  if (!has_major || !release.starts_with('.')) return std::nullopt;
  release.remove_prefix(1);
  const auto has_minor = leading_number(release);
  if (!has_minor) return std::nullopt;
  return *has_major > major || (*has_major == major && *has_minor >= minor);
}

std::optional<Mount> parse_mount(std::string_view file, uint64_t id) {
  while (!file.empty()) {
    std::string_view line = take(file, "\n");
    // id parent device root folder options (tag ...) - filesystem source options
    if (parse_number(take(line, " ")) != id) continue;
    std::vector<std::string_view> words;
    while (!line.empty()) words.push_back(take(line, " "));
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (dash - words.begin() < 5 || words.end() - dash < 4) return std::nullopt;
    Mount m;
    m.device = words[1];
    m.folder = unescaped(words[3]);
    m.filesystem = unescaped(dash[1]);
    m.source = unescaped(dash[2]);
    m.read_only = is_read_only(words[4]) || is_read_only(dash[3]);
    return m;
  }
  return std::nullopt;
}

}  // namespace machine_files
}  // namespace strata
