#include "train/checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"

namespace strata {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial-";

std::optional<uint64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return step;
}

}  // namespace

std::string CheckpointFolder::name_of_step(uint64_t step) {
  return fmt::format("{}{:08}", kPrefix, step);
}

std::string CheckpointFolder::partial(uint64_t step) const {
  return in(std::string(kPartial) + name_of_step(step));
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::list() const {
  std::vector<Entry> out;
  for (const std::string& name : files_.list(path_)) {
    const auto step = step_of(name);
    if (step && has_manifest(in(name))) out.push_back({*step, in(name)});
  }
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return out;
}

std::string CheckpointFolder::begin(uint64_t step) {
  files_.make_folder(path_);
  files_.remove(partial(step));
  files_.make_folder(partial(step));
  return partial(step);
}

CheckpointFolder::Entry CheckpointFolder::commit(uint64_t step) {
  Entry entry{step, in(name_of_step(step))};
  files_.sync_folder(partial(step));
  files_.rename(partial(step), entry.path);
  files_.sync_folder(path_);
  replace_text(files_, in("latest"), name_of_step(step) + "\n");
  return entry;
}

void CheckpointFolder::abandon(uint64_t step) noexcept {
  try {
    files_.remove(partial(step));
  } catch (const Error&) {  // the next run removes it
  }
}

void CheckpointFolder::remove_partial() {
  for (const std::string& name : files_.list(path_)) {
    if (name.starts_with(kPartial) || name == "latest.new") files_.remove(in(name));
  }
}

void CheckpointFolder::retain(uint64_t keep_last, uint64_t keep_every) {
  const std::vector<Entry> all = list();
  for (size_t i = 0; i + keep_last < all.size(); ++i) {
    const Entry& e = all[i];
    if (keep_every != 0 && e.step % keep_every == 0) continue;
    // Renamed first: a crash in between leaves no checkpoint with files missing.
    files_.remove(partial(e.step));
    files_.rename(e.path, partial(e.step));
    files_.remove(partial(e.step));
  }
}

bool CheckpointFolder::has_manifest(const std::string& path) const {
  try {
    const std::vector<std::string> names = files_.list(path);
    return std::find(names.begin(), names.end(), "manifest.json") != names.end();
  } catch (const IoError&) {  // no folder
    return false;
  }
}

size_t CheckpointFolder::supersede_after(uint64_t step) {
  size_t count = 0;
  const std::vector<std::string> names = files_.list(path_);
  for (const Entry& e : list()) {
    if (e.step <= step) continue;
    for (uint32_t n = 1;; ++n) {
      const std::string name = fmt::format("superseded-{}-{}", name_of_step(e.step), n);
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      files_.rename(e.path, in(name));
      break;
    }
    ++count;
  }
  return count;
}

}  // namespace strata
