// What the proc and sys file systems say of the machine: reading them, and the pure parsing of what
// they hold.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// All of a small file; nothing when it cannot be opened or read.
std::optional<std::string> read_machine_file(const std::string& path);

/// Each takes the contents of a file and gives nothing when they do not hold what was looked for.
namespace machine_files {

/// What follows `key:` in the first line that begins with it, without blanks around it; there may
/// be blanks before the colon. As in /proc/self/status and /proc/cpuinfo.
std::optional<std::string_view> parse_field(std::string_view file, std::string_view key) noexcept;

/// Whether a list of words with blanks between has this one.
bool has_word(std::string_view list, std::string_view word) noexcept;

/// The word in brackets of `always [madvise] never`.
std::optional<std::string_view> parse_selected(std::string_view file) noexcept;

/// Whether a set of capabilities, in hex digits as in /proc/self/status, has the n-th.
std::optional<bool> has_capability(std::string_view digits, unsigned n) noexcept;

/// One whole number.
std::optional<uint64_t> parse_number(std::string_view file) noexcept;

/// The huge pages that memory gets when it asks for them, from the setting for all sizes and that
/// for 2 MiB, which newer kernels have and which may defer to the first: `always`, `madvise` or
/// `never`.
std::optional<std::string> huge_page_setting(std::string_view all_sizes,
                                             std::string_view two_mib) noexcept;

/// Whether a kernel release, e.g. `6.1.0-13-amd64`, is at least this version.
std::optional<bool> kernel_at_least(std::string_view release, uint64_t major,
                                    uint64_t minor) noexcept;

/// A mounted file system.
struct Mount {
  std::string device;  ///< `major:minor`; major 0: no block device, or several
  std::string folder;
  std::string filesystem;
  std::string source;  ///< often the block device's name
  bool read_only = false;
};

/// The line of /proc/self/mountinfo with this id.
std::optional<Mount> parse_mount(std::string_view file, uint64_t id);

}  // namespace machine_files
}  // namespace strata
