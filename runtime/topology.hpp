// The machine's processors, and how many of them this process may use.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

struct Topology {
  /// Of the machine.
  uint32_t packages = 0, numa_nodes = 0, cores = 0, cpus = 0;
  /// That the affinity mask of the calling thread allows, which threads it starts inherit; a core
  /// counts when any of its CPUs is allowed.
  uint32_t usable_cores = 0, usable_cpus = 0;
  /// CPUs' worth of time that a control group grants, when it limits it.
  std::optional<double> cpu_quota;
  /// The allowed CPUs as a list, e.g. `0-3,8`.
  std::string cpuset;

  /// Threads that can compute at once: usable cores, within the quota; at least 1.
  uint32_t threads() const noexcept;
  /// One line for logs.
  std::string describe() const;
};

/// Reads the machine anew. Throws IoError when hwloc cannot.
Topology probe_topology();

/// `probe_topology().threads()`: the physical cores available to this process.
uint32_t default_threads();

/// CPUs' worth of time from the contents of a v2 group's cpu.max (`quota period`); nothing when
/// there is no limit.
std::optional<double> parse_cpu_max(std::string_view file) noexcept;

}  // namespace strata
