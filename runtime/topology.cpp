#include "runtime/topology.hpp"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>

#include "runtime/errors.hpp"
#include "runtime/machine_files.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
struct FreeBitmap {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, DestroyTopology>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

TopologyHandle load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw IoError("hwloc cannot start");
  TopologyHandle topology(raw);
  if (hwloc_topology_load(raw) != 0) throw IoError("hwloc cannot read this machine's topology");
  return topology;
}

uint32_t count(hwloc_topology_t t, hwloc_obj_type_t type) {
  return static_cast<uint32_t>(std::max(0, hwloc_get_nbobjs_by_type(t, type)));
}

std::string list_of(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) return "unknown";
  std::string list(text);
  std::free(text);
  return list;
}

/// Of the calling thread, which threads it starts inherit; the whole machine where the mask cannot
/// be read.
Bitmap allowed_cpus(hwloc_topology_t t) {
  Bitmap set(hwloc_bitmap_alloc());
  if (!set) throw OutOfMemory("no memory for a CPU mask");
  if (hwloc_get_cpubind(t, set.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(set.get(), hwloc_topology_get_topology_cpuset(t));
  }
  hwloc_bitmap_and(set.get(), set.get(), hwloc_topology_get_topology_cpuset(t));
  return set;
}

std::optional<double> parse_number(std::string_view text) noexcept {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// The least of the quotas of this process's group and its ancestors.
std::optional<double> probe_quota() {
  const auto groups =
      memory_files::parse_groups(read_machine_file("/proc/self/cgroup").value_or(""), "cpu");
  std::optional<double> least;
  for (const std::string& path : groups.paths) {
    const auto text = [&](const std::string& file) {
      return read_machine_file("/sys/fs/cgroup" + file).value_or("");
    };
    // v1 says -1 for no limit.
    const auto quota = groups.v2 ? parse_cpu_max(text(path + "/cpu.max"))
                                 : parse_cpu_max(text("/cpu" + path + "/cpu.cfs_quota_us") + " " +
                                                 text("/cpu" + path + "/cpu.cfs_period_us"));
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view file) noexcept {
  constexpr std::string_view kBlanks = " \t\n";
  std::string_view words[2];
  for (std::string_view& word : words) {
    file.remove_prefix(std::min(file.find_first_not_of(kBlanks), file.size()));
    word = file.substr(0, file.find_first_of(kBlanks));
    file.remove_prefix(word.size());
  }
  const auto quota = parse_number(words[0]);
  const auto period = parse_number(words[1]);
  if (!quota || !period || !(*quota > 0) || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

uint32_t Topology::threads() const noexcept {
  const double quota = cpu_quota.value_or(usable_cores);
  const double within = std::min(static_cast<double>(usable_cores), std::ceil(quota));
  return std::max(1u, static_cast<uint32_t>(within));
}

std::string Topology::describe() const {
  const auto number = [](uint32_t n, const char* one, const char* many) {
    return std::to_string(n) + " " + (n == 1 ? one : many);
  };
  std::string line = number(packages, "package", "packages") + ", " +
                     number(numa_nodes, "NUMA node", "NUMA nodes") + ", " +
                     number(cores, "core", "cores") + ", " + number(cpus, "CPU", "CPUs") +
                     "; usable: " + number(usable_cores, "core", "cores") + " (CPUs " + cpuset +
                     ")";
  if (cpu_quota) {
    line += ", quota " + std::to_string(std::llround(*cpu_quota * 100)) + " % of a CPU";
  }
  return line;
}

Topology probe_topology() {
  const TopologyHandle handle = load();
  hwloc_topology_t t = handle.get();
  const Bitmap allowed = allowed_cpus(t);
  Topology out;
  out.packages = count(t, HWLOC_OBJ_PACKAGE);
  out.numa_nodes = count(t, HWLOC_OBJ_NUMANODE);
  out.cores = count(t, HWLOC_OBJ_CORE);
  out.cpus = count(t, HWLOC_OBJ_PU);
  for (uint32_t i = 0; i < out.cores; ++i) {
    const hwloc_obj_t core = hwloc_get_obj_by_type(t, HWLOC_OBJ_CORE, i);
    if (hwloc_bitmap_intersects(core->cpuset, allowed.get())) ++out.usable_cores;
  }
  out.usable_cpus = static_cast<uint32_t>(std::max(0, hwloc_bitmap_weight(allowed.get())));
  // Some virtual machines show no cores.
  if (out.cores == 0) {
    out.cores = out.cpus;
    out.usable_cores = out.usable_cpus;
  }
  out.cpu_quota = probe_quota();
  out.cpuset = list_of(allowed.get());
  return out;
}

uint32_t default_threads() { return probe_topology().threads(); }

}  // namespace strata
