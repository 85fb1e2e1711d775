#include "cli/doctor_checks.hpp"

#include <fmt/format.h>

#include "cli/sizes.hpp"
#include "runtime/machine_files.hpp"

namespace strata {
namespace {

std::string bytes_or_unknown(const std::optional<uint64_t>& bytes) {
  if (!bytes) return "unknown";
  return *bytes == kUnlimited ? "unlimited" : format_bytes(*bytes);
}

bool has_flags(const std::string& flags, std::initializer_list<const char*> wanted) {
  for (const char* flag : wanted) {
    if (!machine_files::has_word(flags, flag)) return false;
  }
  return true;
}

}  // namespace

Check check_cores(const MachineFacts& facts) {
  const Topology& t = facts.topology;
  Check c{"cores"};
  c.found = fmt::format("{} of {} usable, with {} of {} CPUs ({})", t.usable_cores, t.cores,
                        t.usable_cpus, t.cpus,
                        t.usable_cpus > t.usable_cores ? "hyperthreads" : "no hyperthreads");
  c.found += t.cpu_quota ? fmt::format(", quota {:.4g} CPUs", *t.cpu_quota) : ", no quota found";
  if (t.usable_cores < t.cores) {
    c.add(Health::slow, fmt::format("A run computes on {} of {} cores.", t.usable_cores, t.cores),
          "Widen the affinity mask: start without taskset, or ask the batch system for more CPUs.");
  }
  if (t.cpu_quota && *t.cpu_quota < t.usable_cores) {
    c.add(Health::slow,
          fmt::format("The kernel stops all threads for the rest of each period once {:.4g} CPUs' "
                      "worth of time is used.",
                      *t.cpu_quota),
          "Raise the control group's cpu.max (docker: --cpus, systemd: CPUQuota=, Kubernetes: the "
          "CPU limit).");
  }
  return c;
}

Check check_isa(const MachineFacts& facts) {
  Check c{"instructions"};
  c.found = "kernels run " + facts.kernels + "; ";
  c.found += facts.cpu_model.empty() ? "CPU: " : facts.cpu_model + ": ";
  if (!facts.cpu_flags) {
    c.found += "AVX2, AVX-512 and AMX unknown";
    c.add(Health::unknown, "Whether the CPU could do more is not known.",
          "Mount /proc; on other processors than x86 there is nothing to do.");
  } else {
    const std::string& flags = *facts.cpu_flags;
    const bool avx2 = has_flags(flags, {"avx2"});
    const bool avx512 =
        has_flags(flags, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
    const bool amx = has_flags(flags, {"amx_tile", "amx_bf16"});
    c.found += fmt::format("{}, {}, {}", avx2 ? "AVX2" : "no AVX2",
                           avx512 ? "AVX-512" : "no AVX-512", amx ? "AMX" : "no AMX");
    if (!avx2) {
      c.add(Health::slow, "Kernels work on 4 numbers at once, not on 8 or 16.",
            "Use another machine, or show a virtual one its host's CPU (QEMU: -cpu host).");
    }
    if (avx512 && facts.isa.rfind("AVX3", 0) != 0 && facts.isa.rfind("AVX10", 0) != 0) {
      c.add(Health::slow,
            "Updates, casts and sums use " + facts.isa + " although the CPU has AVX-512.",
            "Build with a compiler and a Highway that know this CPU.");
    }
  }
  if (!facts.isa_limit.empty()) {
    c.add(Health::slow, facts.isa_limit + " keeps matrix products from newer instructions.",
          "Unset it.");
  }
  if (facts.library == "plain") {
    c.add(Health::slow, "Matrix products are plain loops, many times slower than oneDNN's.",
          "Build without STRATA_PLAIN_GEMM.");
  }
  return c;
}

Check check_memory(const MachineFacts& facts) {
  Check c{"memory"};
  c.found = fmt::format("{} available of {}", bytes_or_unknown(facts.available),
                        bytes_or_unknown(facts.total));
  c.found += facts.group
                 ? fmt::format("; group limit {}, {} left", format_bytes(facts.group->limit),
                               format_bytes(facts.group->left))
                 : "; no group limit found";
  if (!facts.available) {
    c.add(Health::bad, "A run cannot tell how much memory it may use, and does not start.",
          "Mount the proc file system of Linux at /proc.");
  } else if (facts.group && facts.machine_available &&
             facts.group->left < *facts.machine_available) {
    c.add(Health::slow,
          fmt::format("The control group leaves {} of the {} that the machine has available, so "
                      "more state must move.",
                      format_bytes(facts.group->left), format_bytes(*facts.machine_available)),
          "Raise the control group's memory limit (docker: --memory, systemd: MemoryMax=, "
          "Kubernetes: the memory limit).");
  }
  return c;
}

Check check_swap(const MachineFacts& facts) {
  Check c{"swap"};
  if (!facts.swap || !facts.swap_free || *facts.swap_free > *facts.swap) {
    c.found = "unknown";
    c.add(Health::unknown, "Pages of a run may be swapped, which stalls it.",
          "Mount the proc file system at /proc.");
    return c;
  }
  const uint64_t used = *facts.swap - *facts.swap_free;
  c.found = *facts.swap == 0
                ? "none"
                : fmt::format("{} of {} used", format_bytes(used), format_bytes(*facts.swap));
  // Some idle pages are swapped on any machine with swap.
  constexpr uint64_t kUsualShare = 20;
  if (facts.total && used > *facts.total / kUsualShare) {
    c.add(Health::slow, "The machine has been short of memory; a run's pages may be swapped too.",
          "End what uses the memory, or give --device-mem and --host-mem that leave more free.");
  }
  return c;
}

Check check_huge_pages(const MachineFacts& facts) {
  Check c{"huge pages"};
  c.found = facts.huge_pages.value_or("unknown");
  const std::string cost =
      "Transfers past the page cache into 4 KiB pages run at about a third of a drive's speed.";
  const std::string fix =
      "As root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and the same in "
      "hugepages-2048kB beside it where that is never.";
  if (facts.huge_pages_refused) {
    c.found += ", but refused to this process";
    c.add(Health::slow, cost, "Start it without prctl(PR_SET_THP_DISABLE).");
  } else if (!facts.huge_pages) {
    c.add(Health::unknown, "Without huge pages: " + cost,
          "Mount /sys, or use a kernel with transparent huge pages.");
  } else if (*facts.huge_pages == "never") {
    c.add(Health::slow, cost, fix);
  }
  return c;
}

Check check_locked_memory(const MachineFacts& facts) {
  Check c{"locked memory"};
  c.found = "limit " + bytes_or_unknown(facts.locked_limit);
  if (facts.locks_freely == true) {
    c.found += ", which does not hold for this user";
    return c;
  }
  // From 5.12 on the rings of io_uring are not counted as locked, from 6.13 on they may be again.
  const bool uncounted = machine_files::kernel_at_least(facts.kernel_release, 5, 12) == true &&
                         machine_files::kernel_at_least(facts.kernel_release, 6, 13) == false;
  constexpr uint64_t kRings = 64 << 10;
  if (!facts.locked_limit) {
    c.add(Health::unknown, "A low limit keeps io_uring from working on some kernels.",
          "Look at ulimit -l.");
  } else if (*facts.locked_limit < kRings && !uncounted) {
    c.add(Health::slow,
          "This kernel may count io_uring's rings as locked, and refuse them; transfers then use "
          "threads.",
          "Raise it: ulimit -l 1024, or memlock in /etc/security/limits.conf.");
  } else if (*facts.locked_limit != kUnlimited) {
    c.add(Health::ok,
          "Budgets of more than half of it are not registered with io_uring: transfers take about "
          "0.005 s more CPU time a GB.",
          "Raise it to twice the budgets: ulimit -l, or memlock in /etc/security/limits.conf.");
  }
  return c;
}

Check check_open_files(const MachineFacts& facts) {
  Check c{"open files"};
  constexpr uint64_t kEnough = 256;
  if (!facts.files_limit) {
    c.found = "limit unknown";
    c.add(Health::unknown, "With a low limit, runs over many files stop.", "Look at ulimit -n.");
    return c;
  }
  c.found = *facts.files_limit == kUnlimited ? "no limit" : fmt::format("{}", *facts.files_limit);
  if (*facts.files_limit >= kEnough) return c;
  const bool may_raise = facts.files_hard_limit && *facts.files_hard_limit >= kEnough;
  c.add(Health::slow,
        "Data or drives of many files may not all be opened, and io_uring may not start.",
        may_raise ? "Raise it: ulimit -n 1024."
                  : "Raise it as root: nofile in /etc/security/limits.conf, or the container's "
                    "ulimits.");
  return c;
}

Check check_uring(const MachineFacts& facts) {
  Check c{"io_uring", "works"};
  if (facts.no_uring.empty()) return c;
  // What follows is advice, of which we know more here.
  c.found = facts.no_uring.substr(0, facts.no_uring.find("; "));
  const bool disabled = facts.uring_disabled.value_or(0) != 0;
  if (disabled) c.found += fmt::format("; kernel.io_uring_disabled is {}", *facts.uring_disabled);
  if (!facts.seccomp) c.found += "; whether system calls are filtered is unknown";
  if (facts.seccomp == true) c.found += "; a filter of system calls (seccomp) is on";
  c.add(Health::slow, "Transfers use threads that read and write, which takes more CPU time.",
        disabled                ? "As root: sysctl kernel.io_uring_disabled=0."
        : facts.seccomp == true ? "Allow the io_uring calls in the container's seccomp profile, if "
                                  "that is what refuses them."
                                : "Use a kernel that has io_uring, 5.6 or newer.");
  return c;
}

Check check_libraries(const MachineFacts& facts) {
  const std::string kernel = facts.kernel_release.empty() ? "unknown" : facts.kernel_release;
  return Check("libraries", facts.library + ", kernel " + kernel);
}

}  // namespace strata
