// `strata doctor`.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdlib>

#include "cli/doctor_report.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "models/host/matmul.hpp"
#include "models/registry.hpp"
#include "offload/nvme/io_queue.hpp"
#include "runtime/errors.hpp"
#include "runtime/kernels/isa.hpp"
#include "runtime/machine_files.hpp"

namespace strata {
namespace {

std::optional<uint64_t> limit_of(__rlimit_resource resource, bool hard = false) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return std::nullopt;
  const rlim_t n = hard ? limit.rlim_max : limit.rlim_cur;
  return n == RLIM_INFINITY ? kUnlimited : static_cast<uint64_t>(n);
}

/// What the environment holds oneDNN to, as `NAME=VALUE`.
std::string isa_limit() {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string text = value;
    if (text == "ALL" || text == "DEFAULT" || text == "all" || text == "default") return "";
    return std::string(name) + "=" + text;
  }
  return "";
}

void find_cpu(MachineFacts& facts) {
  facts.topology = probe_topology();
  const std::string cpus = read_machine_file("/proc/cpuinfo").value_or("");
  facts.cpu_model = machine_files::parse_field(cpus, "model name").value_or("");
  facts.cpu_flags = machine_files::parse_field(cpus, "flags");
  facts.kernels = kernel_set();
  facts.isa = kernels::isa_name();
  facts.isa_limit = isa_limit();
  facts.library = host::matmul_library();
  utsname names{};
  if (::uname(&names) == 0) facts.kernel_release = names.release;
}

void find_memory(MachineFacts& facts, const std::string& status) {
  try {
    facts.available = available_host_memory();
  } catch (const IoError&) {  // stays unknown
  }
  const std::string info = read_machine_file("/proc/meminfo").value_or("");
  facts.total = memory_files::parse_kilobytes(info, "MemTotal");
  facts.machine_available = memory_files::parse_kilobytes(info, "MemAvailable");
  facts.swap = memory_files::parse_kilobytes(info, "SwapTotal");
  facts.swap_free = memory_files::parse_kilobytes(info, "SwapFree");
  facts.group = tightest_memory_group();
  const std::string settings = "/sys/kernel/mm/transparent_hugepage/";
  facts.huge_pages = machine_files::huge_page_setting(
      read_machine_file(settings + "enabled").value_or(""),
      read_machine_file(settings + "hugepages-2048kB/enabled").value_or(""));
  facts.huge_pages_refused = machine_files::parse_field(status, "THP_enabled") == "0";
  facts.locked_limit = limit_of(RLIMIT_MEMLOCK);
  facts.locks_freely = machine_files::has_capability(
      machine_files::parse_field(status, "CapEff").value_or(""), CAP_IPC_LOCK);
}

void find_files(MachineFacts& facts, const std::string& status,
                const std::vector<std::string>& directories) {
  facts.files_limit = limit_of(RLIMIT_NOFILE);
  facts.files_hard_limit = limit_of(RLIMIT_NOFILE, true);
  facts.no_uring = why_no_uring();
  facts.uring_disabled = machine_files::parse_number(
      read_machine_file("/proc/sys/kernel/io_uring_disabled").value_or(""));
  if (const auto mode = machine_files::parse_field(status, "Seccomp")) facts.seccomp = mode != "0";
  for (const std::string& d : directories) facts.directories.push_back(probe_directory(d));
}

}  // namespace

int run_doctor(const DoctorArgs& args) {
  Output out(args.json);
  MachineFacts facts;
  const std::string status = read_machine_file("/proc/self/status").value_or("");
  find_cpu(facts);
  find_memory(facts, status);
  find_files(facts, status, args.nvme.empty() ? std::vector<std::string>{"."} : args.nvme);
  const std::vector<Check> checks = check_machine(facts);
  out.text(doctor_text(checks));
  out.result(doctor_json(checks, facts).dump());
  return any_bad(checks) ? 1 : 0;
}

}  // namespace strata
