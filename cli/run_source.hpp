// Finding the checkpoint that a command means, and the run it belongs to.
#pragma once
#include <string>

#include "cli/options.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace strata {

/// The folder of a run's checkpoints.
std::string checkpoints_in(const std::string& run);

struct FoundCheckpoint {
  std::string run;  // the folder that was --out
  CheckpointFolder::Entry entry;
  Manifest manifest;
  bool newest = true;
};

/// `path` is a run, then its newest checkpoint is meant, or a checkpoint. Throws ConfigError when
/// there is none.
FoundCheckpoint find_checkpoint(const std::string& path);

/// The arguments the run was started with, with others in the place of some; without --out.
TrainArgs train_args_of(const Manifest&, const GivenFlags& overrides);

/// Throws ConfigError unless a run with this key goes on from the checkpoint as if it had never
/// stopped, but for a longer or shorter schedule. With `allow` says what differs instead; empty:
/// nothing does.
std::string check_numerics(const FoundCheckpoint&, const std::string& numerics_key, bool allow);

}  // namespace strata
