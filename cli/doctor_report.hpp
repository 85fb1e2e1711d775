// What `strata doctor` says of a machine: pure, from facts found before.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/directory_probe.hpp"
#include "runtime/memory.hpp"
#include "runtime/topology.hpp"

namespace strata {

/// `unknown`: what decides could not be found out. In order of how much they matter.
enum class Health : uint8_t { ok, unknown, slow, bad };
const char* health_name(Health) noexcept;

/// A limit that is none.
constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// Nothing, or empty: unknown, unless said otherwise.
struct MachineFacts {
  Topology topology;
  std::string cpu_model;
  std::optional<std::string> cpu_flags;  ///< words of /proc/cpuinfo
  std::string kernels;                   ///< kernel_set()
  std::string isa;                       ///< that of our own kernels
  std::string isa_limit;                 ///< of the environment on oneDNN; empty: none
  std::string library, kernel_release;

  std::optional<uint64_t> available;  ///< to this process; without it no run starts
  std::optional<uint64_t> total, machine_available;
  std::optional<GroupMemory> group;  ///< none: no limit that can be read
  std::optional<uint64_t> swap, swap_free;
  std::optional<std::string> huge_pages;  ///< `always`, `madvise` or `never`
  bool huge_pages_refused = false;        ///< to this process, whatever the setting
  std::optional<bool> locks_freely;       ///< whether no limit of locked memory holds
  std::optional<uint64_t> locked_limit, files_limit, files_hard_limit;

  std::string no_uring;  ///< why io_uring does not work; empty: it works
  std::optional<uint64_t> uring_disabled;
  std::optional<bool> seccomp;  ///< whether a filter of system calls is on

  std::vector<DirectoryFacts> directories;
};

/// One thing that was looked at.
struct Check {
  std::string name;
  Health health = Health::ok;
  std::string found;
  std::string cost, fix;  ///< sentences; empty when all is well

  explicit Check(std::string n, std::string what = {})
      : name(std::move(n)), found(std::move(what)) {}
  /// The worst health stays; sentences are added.
  void add(Health, const std::string& cost_of_it, const std::string& fix_of_it);
};

std::vector<Check> check_machine(const MachineFacts&);
bool any_bad(const std::vector<Check>&);

/// Lines for people.
std::string doctor_text(const std::vector<Check>&);
/// One object for programs; what is unknown is null.
nlohmann::ordered_json doctor_json(const std::vector<Check>&, const MachineFacts&);

}  // namespace strata
