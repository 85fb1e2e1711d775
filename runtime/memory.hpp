// How much host memory there is to budget, and how much this process holds.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// Bytes this process may still take without swapping: the kernel's MemAvailable, or less where a
/// control group (v1 or v2, or one of its ancestors) leaves less. Throws IoError when /proc cannot
/// be read.
size_t available_host_memory();

/// What a control group allows its processes, and leaves of it.
struct GroupMemory {
  size_t limit = 0, left = 0;
};
/// The group among this process's own and its ancestors that leaves least; nothing when none has a
/// limit that can be read.
std::optional<GroupMemory> tightest_memory_group();

/// Bytes of physical memory this process holds now (VmRSS). Throws IoError as above.
size_t resident_bytes();

/// Bytes of it that cannot be swapped: locked (VmLck), or pinned (VmPin) for transfers, which
/// counts a page for each that pins it; at most what is resident. Throws IoError as above.
size_t locked_bytes();

/// The most it ever held (VmHWM). Throws IoError as above.
size_t peak_resident_bytes();

/// The pure parts of the two above; each takes the contents of a file and gives nothing when they
/// do not hold what was looked for.
namespace memory_files {

/// A line `key: N kB` of /proc/meminfo or /proc/self/status, in bytes.
std::optional<size_t> parse_kilobytes(std::string_view file, std::string_view key) noexcept;

/// A line `key N` of a group's memory.stat.
std::optional<size_t> parse_stat(std::string_view file, std::string_view key) noexcept;

/// One number of bytes, as in memory.max; nothing for `max` and for the huge number by which v1
/// says the same.
std::optional<size_t> parse_limit(std::string_view file) noexcept;

/// What a group with this limit and use leaves, never negative. `inactive_file` is page cache,
/// counted as use, that the kernel gives up first.
size_t left_in_group(size_t limit, size_t use, size_t inactive_file) noexcept;

/// A control group, as directories below the mount point, the process's own first and then
/// its ancestors up to "".
struct Groups {
  bool v2 = true;
  std::vector<std::string> paths;
};

/// From /proc/self/cgroup, the group that limits `controller`. A v1 controller wins over a v2
/// hierarchy, which cannot have it then.
Groups parse_groups(std::string_view file, std::string_view controller = "memory");

}  // namespace memory_files
}  // namespace strata
