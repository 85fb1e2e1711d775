#include "runtime/directory_probe.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "runtime/errors.hpp"
#include "runtime/files/io_error.hpp"
#include "runtime/machine_files.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

std::string text_of(const fs::path& path) {
  std::string text = read_machine_file(path.string()).value_or("");
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

/// The drives of a virtual machine say what their driver happens to choose.
bool is_virtual(const fs::path& folder) {
  std::error_code error;
  const std::string bus = fs::canonical(folder / "device/subsystem", error).filename().string();
  return bus == "virtio" || bus == "xen";
}

void add_drives(fs::path folder, std::vector<Drive>& drives, int depth) {
  std::error_code error;
  if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
  // Volumes and arrays are made of other devices; a circle would be the kernel's defect.
  bool made_of_others = false;
  fs::directory_iterator slave(folder / "slaves", error);
  for (; !error && slave != fs::directory_iterator(); slave.increment(error)) {
    made_of_others = true;
    std::error_code broken;
    const fs::path below = fs::canonical(slave->path(), broken);
    if (!broken && depth > 0) add_drives(below, drives, depth - 1);
  }
  if (made_of_others) return;
  Drive drive{folder.filename().string(), text_of(folder / "device/model"), std::nullopt};
  const std::string flag = text_of(folder / "queue/rotational");
  if ((flag == "0" || flag == "1") && !is_virtual(folder)) drive.rotational = flag == "1";
  if (std::find(drives.begin(), drives.end(), drive) == drives.end()) drives.push_back(drive);
}

/// Of an open directory.
std::optional<machine_files::Mount> mount_of(int fd) {
  const std::string info =
      read_machine_file("/proc/self/fdinfo/" + std::to_string(fd)).value_or("");
  const auto field = machine_files::parse_field(info, "mnt_id");
  const auto id = field ? machine_files::parse_number(*field) : std::nullopt;
  const auto mounts = read_machine_file("/proc/self/mountinfo");
  return id && mounts ? machine_files::parse_mount(*mounts, *id) : std::nullopt;
}

/// The block device of a file system, `major:minor`. File systems over several devices, as btrfs,
/// have a number of their own and name one of the devices as their source.
std::string block_device(const machine_files::Mount& mount) {
  if (!mount.device.starts_with("0:")) return mount.device;
  struct stat s {};
  if (!mount.source.starts_with("/dev/") || ::stat(mount.source.c_str(), &s) < 0 ||
      !S_ISBLK(s.st_mode)) {
    return "";
  }
  return std::to_string(major(s.st_rdev)) + ":" + std::to_string(minor(s.st_rdev));
}

void try_scratch(DirectoryFacts& facts, Files& files) {
  ScratchFile scratch = files.open_scratch(facts.path);
  facts.direct = scratch.direct;
  facts.block = scratch.block;
  const std::unique_ptr<void, Free> block(std::aligned_alloc(scratch.block, scratch.block));
  if (!block) throw OutOfMemory("no memory to write a block");
  auto* const bytes = static_cast<std::byte*>(block.get());
  std::fill_n(bytes, scratch.block, std::byte{0});
  constexpr int kMostTries = 100;
  int64_t n = -EINTR;
  for (int i = 0; i < kMostTries && n < 0 && may_retry(static_cast<int>(-n)); ++i) {
    n = scratch.file->write(bytes, scratch.block, 0);
  }
  if (n < 0) {
    throw io_error("write", scratch.block, 0, scratch.file->name(), static_cast<int>(-n));
  }
}

}  // namespace

std::vector<Drive> probe_drives(const std::string& device, const std::string& sys) {
  constexpr int kDepth = 8;
  std::vector<Drive> drives;
  std::error_code error;
  const fs::path folder = fs::canonical(fs::path(sys) / "dev/block" / device, error);
  if (!device.empty() && !error) add_drives(folder, drives, kDepth);
  return drives;
}

bool DirectoryFacts::is_memory() const {
  return filesystem == "tmpfs" || filesystem == "ramfs" || filesystem == "devtmpfs";
}

std::optional<bool> DirectoryFacts::rotational() const {
  std::optional<bool> all = drives.empty() ? std::nullopt : std::optional(false);
  for (const Drive& d : drives) {
    if (d.rotational == true) return true;
    if (!d.rotational) all.reset();
  }
  return all;
}

DirectoryFacts probe_directory(const std::string& path, Files& files) {
  DirectoryFacts facts;
  facts.path = path;
  const int fd = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    if (const auto mount = mount_of(fd)) {
      facts.filesystem = mount->filesystem;
      facts.device = mount->device;
      facts.read_only = mount->read_only;
      facts.drives = probe_drives(block_device(*mount));
    }
    ::close(fd);
    try {
      facts.free_bytes = files.free_bytes(path);
    } catch (const IoError&) {  // stays unknown
    }
  }
  try {
    try_scratch(facts, files);
  } catch (const Error& e) {
    facts.problem = e.what();
  }
  return facts;
}

}  // namespace strata
