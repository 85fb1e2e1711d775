#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/doctor_checks.hpp"
#include "cli/sizes.hpp"

namespace strata {
namespace {

bool is_remote(const std::string& filesystem) {
  constexpr std::array kNames = {"nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "afs"};
  return std::find(kNames.begin(), kNames.end(), filesystem) != kNames.end();
}

bool share_drive(const DirectoryFacts& a, const DirectoryFacts& b) {
  if (!a.device.empty() && a.device == b.device) return true;
  return std::any_of(a.drives.begin(), a.drives.end(), [&](const Drive& x) {
    return std::any_of(b.drives.begin(), b.drives.end(),
                       [&](const Drive& y) { return x.name == y.name; });
  });
}

std::string describe(const DirectoryFacts& d) {
  const std::string free = (d.free_bytes ? format_bytes(*d.free_bytes) : "unknown") + " free";
  if (d.is_memory()) return d.filesystem + ", which is memory; " + free;
  const std::string drives = drive_names(d);
  const auto turns = d.rotational();
  std::string text = d.filesystem.empty() ? "file system unknown" : d.filesystem;
  text += drives.empty() ? ", drive unknown" : " on " + drives;
  if (!drives.empty()) {
    text += !turns ? ", rotational or not unknown" : *turns ? ", rotational" : ", solid state";
  }
  if (d.read_only == true) text += ", read-only";
  text += !d.direct ? "; direct unknown" : *d.direct ? "; direct" : "; through the page cache";
  if (d.block) text += fmt::format(", blocks of {}", format_bytes(*d.block));
  return text + "; " + free;
}

std::string file_system_in_brackets(const DirectoryFacts& d) {
  if (d.filesystem.empty()) return "";
  return " (" + d.filesystem + (d.read_only == true ? ", read-only)" : ")");
}

/// What stops a run; true when there is something.
bool add_bad(Check& c, const DirectoryFacts& d) {
  if (!d.problem.empty()) {
    // The message ends with advice, where there is one.
    const size_t advice = d.problem.rfind("; ");
    c.found = d.problem.substr(0, advice) + file_system_in_brackets(d);
    std::string fix = "Give a directory that this user can write to.";
    if (d.read_only == true) {
      fix = "Mount it for writing, or choose another directory.";
    } else if (advice != std::string::npos) {
      fix = d.problem.substr(advice + 2) + ".";
      fix[0] = static_cast<char>(fix[0] - (fix[0] >= 'a' && fix[0] <= 'z' ? 'a' - 'A' : 0));
    }
    c.add(Health::bad, "A run with it for --nvme does not start.", fix);
  } else if (d.is_memory()) {
    c.add(Health::bad,
          "It is memory: state kept there takes what it should spare, outside all budgets.",
          "Give a directory on a drive.");
  } else if (d.free_bytes == uint64_t{0}) {
    c.add(Health::bad, "A run with it for --nvme does not start: there is no space.",
          "Free space there, or choose another directory.");
  }
  return c.health == Health::bad;
}

void add_slow(Check& c, const DirectoryFacts& d) {
  if (is_remote(d.filesystem)) {
    c.add(Health::slow, "Every transfer goes over the network.", "Use a local drive.");
  }
  if (d.direct == false) {
    c.add(Health::slow,
          "Transfers go through the page cache, which costs a copy and memory outside all budgets.",
          "Use a file system with O_DIRECT, as ext4 or xfs.");
  }
  if (d.rotational() == true) {
    c.add(Health::slow, "A rotating drive moves a tenth or less of what a solid one does.",
          "Use an SSD, best an NVMe one.");
  }
}

}  // namespace

std::string drive_names(const DirectoryFacts& d) {
  std::string names;
  for (const Drive& drive : d.drives) {
    names += (names.empty() ? "" : " + ") + drive.name;
    if (!drive.model.empty()) names += " (" + drive.model + ")";
  }
  return names;
}

Check check_directory(const std::vector<DirectoryFacts>& all, size_t n) {
  const DirectoryFacts& d = all[n];
  Check c{"nvme " + d.path, describe(d)};
  for (size_t i = 0; i < n; ++i) {
    if (all[i].path != d.path) continue;
    c.add(Health::bad, "A run refuses a directory that is given twice.", "Give it once.");
    return c;
  }
  if (add_bad(c, d)) return c;
  add_slow(c, d);
  for (size_t i = 0; i < n; ++i) {
    if (!share_drive(all[i], d)) continue;
    c.add(Health::slow,
          "It is on a drive of " + all[i].path + ", so that a second one gains nothing.",
          "Give one directory a drive.");
    break;
  }
  return c;
}

}  // namespace strata
