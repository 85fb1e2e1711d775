// The files behind `--data`.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace strata {

/// Expands `--data` arguments in the order given: a file stands for itself, a directory for all
/// *.txt directly in it, or where it has none for all *.bin, anything else is a glob pattern
/// (glob(3)); the last two sorted bytewise.
/// Throws ConfigError for a missing file, a pattern or directory without matches, something that
/// is not a regular file, and a file that comes twice: its copy in the last tenth would validate
/// on text that was trained on.
std::vector<std::string> resolve_data_files(std::span<const std::string> arguments);

/// Whether the files are token shards, which end in .bin, and not text. Throws ConfigError naming
/// one of each where there are both.
bool are_shards(std::span<const std::string> paths);

}  // namespace strata
