// Updates before the step-wide value is known, in the expectation that it changes nothing; if it
// does, the version before comes back and the update is made again.
#include <algorithm>

#include "offload/engine.hpp"
#include "offload/engine_kernels.hpp"
#include "runtime/errors.hpp"

namespace strata {

/// Units on NVMe for another version of all that an update of the chunk changes.
void Engine::create_older(ChunkId c) {
  for (size_t p = 0; p < kPlanes; ++p) {
    const ObjId id{c, static_cast<Plane>(p)};
    if (shape_.units(id) == 0 || id.plane == Plane::grad) continue;
    UnitList& older = older_[object_index(id)];
    if (plan_.staging == Place::device && table_.at(id).home != Place::host) {
      older = acquire_below(id, Place::nvme);
    }
    if (older.count != 0) continue;
    throw StateError("the plan's speculation for chunk " + std::to_string(c) +
                     " has no room on NVMe for two versions of its " + name_of(id.plane) +
                     ", or keeps it on the host");
  }
}

/// Writes what the chunk's next update changes on the device itself to NVMe.
void Engine::keep_older(ChunkId c) {
  Pending& p = pending_[c];
  if (!plan_.chunks[c].speculates || p.older_kept) return;
  p.older_kept = true;
  for (size_t i = 0; i < kPlanes; ++i) {
    const ObjId id{c, static_cast<Plane>(i)};
    if (shape_.units(id) == 0 || id.plane == Plane::grad) continue;
    if (table_.at(id).home != Place::device) continue;
    transfer(id, units_of(id, Place::device), Place::device, older_[object_index(id)], Place::nvme);
    note(Issued::write_back, id, older_[object_index(id)].ids[0]);
  }
}

/// Whether the chunk's update need not wait for the step-wide value. The last one known tells what
/// to expect: values repeat whatever the timing, so the order of what is issued does too.
bool Engine::speculates_now(ChunkId c) {
  if (options_.clip <= 0 || !plan_.chunks[c].speculates) return false;
  if (!expectation_known_) expect_as(mirrors_[steps_begun_ % 2]);
  return expects_;
}

/// Waits for a step's value; from then on, the next is expected to be like it.
void Engine::expect_as(const StepMirror& mirror) {
  backend_.wait(mirror.done);
  expects_ = backend_.executes() ? mirror.record.as_expected != 0 : !assumed_unexpected_;
  expectation_known_ = true;
}

/// Once their step's value is known, updates that took it for another are undone and pending. The
/// issuer waits for it: at the first use of what was updated, when all that could be fetched before
/// has been asked for.
void Engine::conclude_speculation() {
  if (speculated_ == 0) return;
  const auto first =
      std::find_if(pending_.begin(), pending_.end(), [](const Pending& p) { return p.speculated; });
  StepMirror& mirror = mirrors_[first->mirror];
  expect_as(mirror);
  Stream& stream = backend_.stream(Resource::update);
  launch_native<take_least, HostContext>(stream, Cost{}, &nonfinite_weight_, &speculated_nonfinite_,
                                         expects_);
  mirror.updates[static_cast<size_t>(Resource::update)] = stream.record();
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    if (!pending_[c].speculated) continue;
    pending_[c].speculated = false;
    if (!expects_) {
      go_back(c);
      pending_[c].pending = true;
      --stats_.updates;
      ++stats_.undone_updates;
      continue;
    }
    const ObjId grad{c, Plane::grad};
    table_.kill(grad);
    if (table_.at(grad).home != Place::device && table_.at(grad).at(Place::device).present()) {
      drop_copy(grad, Place::device);
    }
  }
  speculated_ = 0;
}

/// Makes the older version of a chunk the newest again.
void Engine::go_back(ChunkId c) {
  for (size_t p = 0; p < kPlanes; ++p) {
    const ObjId id{c, static_cast<Plane>(p)};
    if (shape_.units(id) == 0 || id.plane == Plane::grad) continue;
    UnitList& older = older_[object_index(id)];
    if (table_.at(id).home == Place::device) {
      transfer(id, older, Place::nvme, units_of(id, Place::device), Place::device);
      note(Issued::fetch, id, units_of(id, Place::device).ids[0]);
    } else {
      table_.kill(id);
      table_.exchange(id, Place::nvme, older);
    }
    table_.written(id, table_.at(id).home);
  }
}

}  // namespace strata
