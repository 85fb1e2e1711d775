// From a chunk's final gradient to its update: norms, what waits for what, the optimizer.
#include <algorithm>
#include <utility>

#include "offload/engine.hpp"
#include "offload/engine_kernels.hpp"

namespace strata {
namespace {

constexpr std::array<Place, kPlanes> kOnDevice{};

}  // namespace

void Engine::sum_squares(ChunkId c) {
  const auto& slices = shape_.slices(c);
  std::byte* nodes = record_base_ + records_.nodes(c, 0);
  const SquareSumJob job{
      addresses(c, kOnDevice), slices.data(),           static_cast<uint32_t>(slices.size()),
      shape_.grad_type(),      layout_.params().data(), reinterpret_cast<double*>(nodes)};
  launch_native<sum_chunk_squares, HostContext>(stream(), Cost{0, shape_.unit_bytes()}, job);
  note(Issued::square_sum, {c, Plane::grad});
  if (options_.clip > 0) return;
  // The last step's scale may still be on its way to the host.
  chunk_scale_hazards_[c].order_read(stream(), Resource::compute);
  const uint64_t node_bytes = records_.nodes(c, slices.size()) - records_.nodes(c, 0);
  auto* scales = reinterpret_cast<kernels::StepScale*>(record_base_ + records_.chunk_scales());
  const auto [inv1, inv2] = inverse_bias(updater_.config(), step_.step);
  launch_native<run_finish_chunk, HostContext>(
      stream(), Cost{0, node_bytes},
      ChunkScaleInput{reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step()),
                      scales + c, reinterpret_cast<const double*>(record_base_ + records_.losses()),
                      program_->micro_batches(), reinterpret_cast<const double*>(nodes),
                      static_cast<uint32_t>(node_bytes / sizeof(double)), inv1, inv2});
}

void Engine::gradient_complete(ChunkId c, const Fence& op) {
  const ObjId grad{c, Plane::grad};
  const ChunkPlacement& placed = plan_.chunks[c];
  const bool undecided = placed.keep_grad == KeepGrad::if_it_fits;
  const bool stays = undecided ? survives_until_update(c) : placed.keep_grad == KeepGrad::yes;
  if (table_.at(grad).home != Place::device && !stays) {
    write_back(grad, Place::device);
    // What is made last is updated first in the next step: it need not be read again.
    const bool updated_soon = undecided && updates_on_device() && options_.clip > 0 &&
                              cursor_ + policy_.look_ahead() >= program_->ops().size();
    if (!updated_soon && !speculates_now(c)) drop_copy(grad, Place::device, Freed::by_transfer);
  }
  if (!placed.on_device() && options_.clip <= 0) {
    Stream& d2h = backend_.stream(Resource::d2h);
    if (options_.timeline != nullptr) d2h.set_label(options_.timeline->norm());
    chunk_scale_hazards_[c].order_write(d2h, Resource::d2h);
    d2h.wait(op);
    d2h.copy(&chunk_scales_[c],
             record_base_ + records_.chunk_scales() + c * sizeof(kernels::StepScale),
             sizeof(kernels::StepScale));
    chunk_scale_hazards_[c].did_write(Resource::d2h, d2h.record());
  }
  Pending& p = pending_[c];
  set_ready(c, true);
  p.lr = step_.lr;
  p.mirror = (steps_begun_ - 1) % 2;
}

/// Whether a gradient just made on the device can stay there until its chunk's update, beside what
/// ops need and the other gradients that wait: with a step-wide value all that are still to come,
/// without one those whose weights are still used.
bool Engine::survives_until_update(ChunkId chunk) const {
  if (table_.at({chunk, Plane::grad}).home != Place::nvme) return false;
  const bool stepwide = options_.clip > 0;
  if (!stepwide && program_->next_use({chunk, Plane::weight}, cursor_) == program_->ops().size()) {
    return true;
  }
  if (!updates_on_device()) return false;
  uint64_t units = plan_.need.device_units();
  if (stepwide) {
    units += unready_grad_units_;
  } else {
    for (const ChunkId c : ready_) {
      const ObjId grad{c, Plane::grad};
      if (!table_.at(grad).home_current()) units += shape_.units(grad);
    }
    units += shape_.units({chunk, Plane::grad});
  }
  return units <= plan_.device_units;
}

void Engine::set_ready(ChunkId c, bool ready) {
  if (std::exchange(pending_[c].ready, ready) == ready) return;
  const uint32_t units = shape_.units({c, Plane::grad});
  if (ready) {
    ready_.push_back(c);
    unready_grad_units_ -= units;
  } else {
    // Most often the newest of few.
    ready_.erase(std::find(ready_.rbegin(), ready_.rend(), c).base() - 1);
    unready_grad_units_ += units;
  }
}

void Engine::retire_weights(ChunkId c) {
  const ObjId weight{c, Plane::weight};
  if (!pending_[c].ready || pending_[c].speculated) return;
  if (program_->next_use(weight, cursor_) != program_->ops().size()) return;
  // They are about to change: a cached copy is dead already, unless the update starts from it.
  const bool staged = table_.at(weight).home == Place::nvme;
  if (!staged && table_.at(weight).at(Place::device).present() && evictable(weight)) {
    drop_copy(weight, Place::device);
  }
  if (options_.clip > 0) {
    if (speculates_now(c)) update(c);
    return;
  }
  set_ready(c, false);
  pending_[c].pending = true;
  if (!plan_.chunks[c].defers_update) update(c);
}

template <class Which>
void Engine::run_updates(const Which& which) {
  // Gradients that are still on the device go first, and weights are not kept there for later: so
  // no more units are taken than by a step.
  for (const bool on_device : {true, false}) {
    for (ChunkId c = 0; c < layout_.chunks(); ++c) {
      const ObjId weight{c, Plane::weight};
      if (!pending_[c].pending || !which(pending_[c])) continue;
      if (on_device && !table_.at({c, Plane::grad}).at(Place::device).present()) continue;
      const bool cached = table_.at(weight).at(Place::device).present();
      make_room_for_update(c, 0);
      update(c);
      if (!cached && table_.at(weight).at(Place::device).present() && evictable(weight)) {
        drop_copy(weight, Place::device);
      }
    }
  }
}

void Engine::issue_norm() {
  const auto newest = static_cast<uint32_t>((steps_begun_ - 1) % 2);
  run_updates([&](const Pending& p) { return p.mirror != newest; });  // what the step did not use
  StepMirror& mirror = mirrors_[newest];
  Stream& compute = backend_.stream(Resource::compute);
  Stream& d2h = backend_.stream(Resource::d2h);
  auto* record = reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step());
  const auto [inv1, inv2] = inverse_bias(updater_.config(), step_.step);
  if (options_.timeline != nullptr) {
    compute.set_label(options_.timeline->norm());
    d2h.set_label(options_.timeline->norm());
  }
  record_hazard_.order_write(compute, Resource::compute);
  launch_native<run_finish_step, HostContext>(
      compute, Cost{0, records_.bytes()},
      NormInput{norm_table_.get(), record,
                reinterpret_cast<const double*>(record_base_ + records_.losses()),
                program_->micro_batches(), step_.target_tokens, options_.clip, inv1, inv2});
  record_hazard_.did_write(Resource::compute, compute.record());
  note(Issued::norm);
  record_hazard_.order_read(d2h, Resource::d2h);
  mirror.hazard.order_write(d2h, Resource::d2h);
  d2h.copy(&mirror.record, record, sizeof(StepRecord));
  mirror.done = d2h.record();
  record_hazard_.did_read(Resource::d2h, mirror.done);
  mirror.hazard.did_write(Resource::d2h, mirror.done);
  while (!ready_.empty()) {
    Pending& p = pending_[ready_.back()];
    p.pending = !p.speculated;
    set_ready(ready_.back(), false);
  }
  expectation_known_ = false;
  if (!plan_.updates_at_end) return;
  flush();
  for (const Fence& update : mirror.updates) compute.wait(update);
}

void Engine::flush() {
  conclude_speculation();
  run_updates([](const Pending&) { return true; });
}

/// Frees the device units that a chunk's update brings planes from NVMe into, and as many again, by
/// evicting copies that no op from now up to `needed_by` uses: with the units of one update, each
/// would wait for the one before to be written. False: it had better wait until it is needed.
bool Engine::make_room_for_update(ChunkId c, OpIndex needed_by) {
  if (!updates_on_device()) return true;
  uint32_t units = 0;
  for (size_t p = 0; p < kPlanes; ++p) {
    const ObjId id{c, static_cast<Plane>(p)};
    const Object& o = table_.at(id);
    if (!o.exists || o.home != Place::nvme || o.at(Place::device).present()) continue;
    if (windows_.first_unit(id) < 0) units += shape_.units(id);
  }
  const UnitPool& device = pool(Place::device);
  while (device.free_units() < 2 * units) {
    if (!evict_one(needed_by < cursor_ ? 0 : needed_by + 1 - cursor_)) return false;
  }
  return true;
}

void Engine::update(ChunkId c) {
  Pending& p = pending_[c];
  p.pending = false;
  const ObjId weight{c, Plane::weight}, grad{c, Plane::grad};
  if (options_.mutations.skip_update == ++updates_seen_) return;
  // The optimizer runs where the records are: on the device in compute order, else beside it.
  const bool on_device = plan_.chunks[c].on_device();
  const Resource r = on_device ? Resource::compute : Resource::update;
  Stream& stream = backend_.stream(r);
  // Moves of its planes have labels of their own, on other streams.
  if (options_.timeline != nullptr) stream.set_label(options_.timeline->update(c));
  StepMirror& mirror = mirrors_[p.mirror];
  const bool stepwide = options_.clip > 0;
  const bool speculates = stepwide && p.ready;  // the value is not known yet
  const kernels::StepScale* scale;
  if (on_device) {
    scale = stepwide
                ? &reinterpret_cast<StepRecord*>(record_base_ + RecordLayout::step())->scale
                : reinterpret_cast<kernels::StepScale*>(record_base_ + records_.chunk_scales()) + c;
  } else {
    scale = stepwide && !speculates ? &mirror.record.scale : &chunk_scales_[c];
  }
  Hazard& scale_hazard = on_device                 ? record_hazard_
                         : stepwide && !speculates ? mirror.hazard
                                                   : chunk_scale_hazards_[c];
  scale_hazard.order_read(stream, r);
  if (speculates) {
    keep_older(c);
    const auto [inv1, inv2] = inverse_bias(updater_.config(), step_.step);
    launch_native<store_scale, HostContext>(stream, Cost{}, &chunk_scales_[c],
                                            kernels::StepScale{1.0f, 1, inv1, inv2});
  }
  PlanePlaces places{};
  for (size_t i = 0; i < kPlanes; ++i) {
    const ObjId id{c, static_cast<Plane>(i)};
    if (shape_.units(id) == 0) continue;
    places[i] = stage(id);
    if (id.plane == Plane::grad) {
      order_reads(units_of(id, places[i]), places[i], r);
    } else {
      order_writes(units_of(id, places[i]), places[i], r);
    }
  }
  const auto& slices = shape_.slices(c);
  updater_.update(stream,
                  {addresses(c, places), slices.data(), static_cast<uint32_t>(slices.size()),
                   shape_.weight_type(), shape_.grad_type(), scale,
                   speculates ? &speculated_nonfinite_ : &nonfinite_weight_, p.lr});
  const Fence fence = stream.record();
  scale_hazard.did_read(r, fence);
  mirror.updates[static_cast<size_t>(r)] = fence;
  ++stats_.updates;
  note(Issued::update, weight);
  const Place grad_place = places[static_cast<size_t>(Plane::grad)];
  read_units(units_of(grad, grad_place), grad_place, r, fence);
  p.older_kept = false;
  if (speculates) {
    p.speculated = true;
    ++speculated_;
    ++stats_.speculated_updates;
  } else {
    table_.kill(grad);
  }
  for (size_t i = 0; i < kPlanes; ++i) {
    const ObjId id{c, static_cast<Plane>(i)};
    if (shape_.units(id) == 0 || id.plane == Plane::grad) continue;
    write_units(units_of(id, places[i]), places[i], r, fence);
    table_.written(id, places[i]);
    if (speculates && table_.at(id).home != Place::device) {
      table_.exchange(id, Place::nvme, older_[object_index(id)]);
    }
  }
  const Place updated = places[static_cast<size_t>(Plane::weight)];
  if (updated != Place::device && table_.at(weight).at(Place::device).present()) {
    if (plan_.chunks[c].keep_weight) {
      fetch(weight);
    } else if (table_.at(weight).pins == 1) {  // ours
      table_.unpin(weight);
      drop_copy(weight, Place::device);
      table_.pin(weight);
    }
  }
  for (size_t i = 0; i < kPlanes; ++i) {
    const ObjId id{c, static_cast<Plane>(i)};
    if (shape_.units(id) != 0) unstage(id, places[i], id.plane != Plane::grad);
  }
  const Object& g = table_.at(grad);
  const bool stayed = g.home != Place::device && g.at(Place::device).present();
  if (stayed && g.version == 0) drop_copy(grad, Place::device, Freed::by_transfer);
}

}  // namespace strata
