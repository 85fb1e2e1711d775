#include "cli/run_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "runtime/errors.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The key without what the length of a schedule decides.
std::string without_schedule(const std::string& key) {
  std::string out;
  for (size_t at = 0; at < key.size();) {
    const size_t end = std::min(key.find(' ', at), key.size());
    const std::string word = key.substr(at, end - at);
    if (!word.starts_with("steps=") && !word.starts_with("warmup=")) out += word + " ";
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string checkpoints_in(const std::string& run) { return run + "/checkpoints"; }

FoundCheckpoint find_checkpoint(const std::string& path) {
  Files& files = watched_files();
  FoundCheckpoint found;
  std::error_code error;
  if (fs::exists(path + "/manifest.json", error)) {
    const fs::path checkpoint = fs::canonical(path, error);
    const fs::path folder = checkpoint.parent_path();
    found.run = folder.parent_path().string();
    found.manifest = open_checkpoint(files, path);
    found.entry = {found.manifest.step, checkpoint.string()};
    const auto all = CheckpointFolder(files, folder.string()).list();
    found.newest = all.empty() || all.back().step <= found.manifest.step;
    return found;
  }
  if (!fs::is_directory(path, error)) {
    throw ConfigError("there is no folder " + path + "; name the folder that was --out of a run");
  }
  const auto all = CheckpointFolder(files, checkpoints_in(path)).list();
  if (all.empty()) {
    throw ConfigError("there is no checkpoint in " + checkpoints_in(path) +
                      "; runs save one when they end or are stopped, and every N steps with "
                      "--checkpoint-every N");
  }
  found.run = path;
  found.entry = all.back();
  try {
    found.manifest = open_checkpoint(files, found.entry.path);
  } catch (const Error& e) {
    if (all.size() == 1) throw;
    throw ConfigError(
        fmt::format("{}; the one before it is {}", e.what(), all[all.size() - 2].path));
  }
  return found;
}

TrainArgs train_args_of(const Manifest& m, const GivenFlags& overrides) {
  std::set<std::string> replaced;
  for (const auto& [flag, value] : overrides) replaced.insert(flag);
  // A plan for other drives, or for none, is none of the old budget's.
  if (replaced.contains("--nvme")) replaced.insert("--nvme-mem");
  if (replaced.contains("--no-checkpoint")) replaced.insert("--checkpoint-every");
  std::vector<std::string> words = {"strata", "train"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  };
  for (const auto& [flag, value] : m.flags) {
    if (!replaced.contains(flag)) add(flag, value);
  }
  for (const auto& [flag, value] : overrides) add(flag, value);
  std::vector<const char*> argv;
  argv.reserve(words.size());
  for (const std::string& w : words) argv.push_back(w.c_str());
  Command command = parse_command_line(static_cast<int>(argv.size()), argv.data());
  if (auto* const args = std::get_if<TrainArgs>(&command)) return std::move(*args);
  throw ConfigError("the flags in the checkpoint's manifest are not those of a run");
}

std::string check_numerics(const FoundCheckpoint& found, const std::string& key, bool allow) {
  const std::string& there = found.manifest.numerics_key;
  if (there == key) return {};
  std::string difference = describe_key_difference(there, key);
  if (allow || without_schedule(there) == without_schedule(key)) return difference;
  throw ConfigError(fmt::format(
      "{} cannot be gone on with exactly: {}; give the same data, model and flags, use the machine "
      "and libraries of that run, or accept other numbers with --allow-inexact",
      found.entry.path, difference));
}

}  // namespace strata
