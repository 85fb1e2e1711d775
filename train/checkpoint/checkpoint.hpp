// State of a session to files and back.
#pragma once
#include <string>

#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/session.hpp"

namespace strata {

/// Bytes that a checkpoint's tensors take.
uint64_t checkpoint_bytes(const Workload&);

/// Throws IoError when a checkpoint could not be saved now: a folder that cannot be written, or too
/// little room.
void require_room(CheckpointFolder&, const Workload&);

/// Writes `model.safetensors` (weights, under their own names), `optimizer.safetensors` (records,
/// as `m.NAME`, `v.NAME`, `remainder.NAME`) and then the manifest, and commits. Of `head`, files
/// and tensors are filled in. Runs pending updates first; takes about a mebibyte of memory.
/// Checks first that there is room. Throws IoError; then the checkpoints before are as they were.
CheckpointFolder::Entry save_checkpoint(CheckpointFolder&, Manifest head, const Workload&,
                                        Session&);

/// The manifest of the checkpoint in a folder, its files being there in the right size. Throws
/// ConfigError, IoError.
Manifest open_checkpoint(Files&, const std::string& path);

/// Fills a session with what its model needs of a checkpoint: all planes in training, else weights.
/// Compares hashes on the way. Throws ConfigError when it is of another model, IoError naming file,
/// offset and tensor; the session is not usable then.
void load_checkpoint(Files&, const std::string& path, const Manifest&, const Workload&, Session&);

}  // namespace strata
