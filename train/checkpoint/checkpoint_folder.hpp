// The checkpoints of a run: which are there, and how one comes and goes without ever being half
// there.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"

namespace strata {

/// A folder `step-NNNNNNNN` for each checkpoint. One is written in a folder of another name that
/// begins with a dot, and renamed when all of it is on the drive; then the file `latest` names it.
class CheckpointFolder {
 public:
  struct Entry {
    uint64_t step;
    std::string path;
  };

  CheckpointFolder(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  const std::string& path() const noexcept { return path_; }
  Files& files() const noexcept { return files_; }
  /// The complete ones, ascending by step. Throws IoError.
  std::vector<Entry> list() const;

  /// An empty folder to write the checkpoint of a step into.
  std::string begin(uint64_t step);
  /// Gives what was written its name. After a crash at any instant it is there whole, or not at all
  /// and the one before is still the newest.
  Entry commit(uint64_t step);
  /// Removes what `begin` made.
  void abandon(uint64_t step) noexcept;
  /// Removes what a crash left half written.
  void remove_partial();
  /// Removes all but the newest `keep_last` and those of steps that are multiples of `keep_every`
  /// (0: of none).
  void retain(uint64_t keep_last, uint64_t keep_every);
  /// Renames those after `step`, which a run that goes on from there leaves behind. Returns how
  /// many.
  size_t supersede_after(uint64_t step);

 private:
  static std::string name_of_step(uint64_t step);
  std::string in(const std::string& name) const { return path_ + "/" + name; }
  std::string partial(uint64_t step) const;
  bool has_manifest(const std::string& path) const;

  Files& files_;
  std::string path_;
};

}  // namespace strata
