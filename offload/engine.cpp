#include "offload/engine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "offload/engine_kernels.hpp"
#include "runtime/errors.hpp"

namespace strata {
Engine::Engine(Backend& backend, const ChunkLayout& layout, const StateShape& shape,
               const Plan& plan, const Policy& policy, const Updater& updater,
               std::vector<const Program*> programs, Ledger& ledger, const EngineOptions& options)
    : backend_(backend),
      layout_(layout),
      shape_(shape),
      plan_(plan),
      policy_(policy),
      updater_(updater),
      programs_(std::move(programs)),
      ledger_(ledger),
      options_(options),
      windows_(layout, shape),
      records_(layout, shape, programs_.front()->micro_batches()),
      table_(layout.chunks()),
      chunk_scales_(layout.chunks()),
      chunk_scale_hazards_(layout.chunks()),
      pending_(layout.chunks()),
      next_use_(layout.chunks() * kPlanes),
      last_use_(layout.chunks() * kPlanes, 0),
      ahead_(layout.chunks() * kPlanes, Ahead::no),
      older_(layout.chunks() * kPlanes),
      op_fences_(std::max(options.run_ahead, 1u)) {
  if (plan.chunks.size() != layout.chunks()) {
    throw StateError("the plan places " + std::to_string(plan.chunks.size()) +
                     " chunks, the layout has " + std::to_string(layout.chunks()) +
                     "; plan again for this layout");
  }
  for (const Program* p : programs_) {
    if (p->micro_batches() > programs_.front()->micro_batches()) {
      throw StateError("a program has " + std::to_string(p->micro_batches()) +
                       " micro-batches, the first, which sizes the records, " +
                       std::to_string(programs_.front()->micro_batches()) +
                       "; give the others at most as many");
    }
  }
  const size_t unit = shape.unit_bytes();
  const size_t device_units = plan.device_units * unit;
  non_model_ = ledger_.reserve(Tier::device, Category::activation, plan.need.non_model_bytes);
  device_arena_ = backend_.allocate(Tier::device, device_units + plan.need.non_model_bytes);
  host_arena_ = backend_.allocate(Tier::host, plan.host_units * unit);
  nvme_arena_ = backend_.allocate(Tier::nvme, plan.nvme_units * unit);
  pools_ = {
      std::make_unique<UnitPool>(Tier::device, device_arena_.base(), unit, plan.device_units,
                                 windows_.units(), ledger_),
      std::make_unique<UnitPool>(Tier::host, host_arena_.base(), unit, plan.host_units, 0, ledger_),
      std::make_unique<UnitPool>(Tier::nvme, nvme_arena_.base(), unit, plan.nvme_units, 0,
                                 ledger_)};
  record_base_ = device_arena_.base() + device_units;
  values_ = record_base_ + records_.bytes();
  program_ = programs_.front();
  norm_table_ = std::make_unique<NormTable>(layout_, shape_, records_, record_base_);
  evictable_.reserve(plan.device_units);
  victims_.reserve(plan.device_units);
  ready_.reserve(layout.chunks());
  for (ChunkId c = 0; c < layout.chunks(); ++c)
    unready_grad_units_ += shape.units({c, Plane::grad});
  create_objects();
}

Engine::~Engine() {
  try {
    backend_.drain();
  } catch (...) {
    // Whoever waited was told; memory must outlive the workers all the same.
  }
  for (ChunkId c = 0; c < layout_.chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      for (const Place place : kAllPlaces) {
        const UnitList units = table_.detach({c, static_cast<Plane>(p)}, place);
        for (uint32_t i = 0; i < units.count; ++i) pool(place).release(units.ids[i]);
      }
      const UnitList& older = older_[object_index({c, static_cast<Plane>(p)})];
      for (uint32_t i = 0; i < older.count; ++i) pool(Place::nvme).release(older.ids[i]);
    }
  }
}

void Engine::begin(uint32_t program, const StepParams& step) {
  if (running_) {
    throw StateError(
        "a program was begun before the last one ended, or after one of its ops failed");
  }
  program_ = programs_.at(program);
  program_index_ = program;
  running_ = true;
  ++runs_;
  cursor_ = 0;
  next_action_ = 0;
  step_ = step;
  if (options_.timeline != nullptr && program_->trains()) options_.timeline->begin_step(step.step);
  if (program_->trains()) {
    // At most one step ahead: the step before the last must be done.
    backend_.wait(mirrors_[steps_begun_ % 2].done);
    ++steps_begun_;
  }
  fetch_kept_weights();
  if (!policy_.fetches_in_order()) look_ahead();
}

OpScope* Engine::enter(const OpInfo& info, std::initializer_list<TensorUse>,
                       std::initializer_list<ValueId>, std::initializer_list<ValueId>) {
  expect_op(info.name);
  if (current_op().skip) {
    ++cursor_;
    return nullptr;
  }
  begin_op();
  if (backend_.executes()) return this;
  backend_.stream(Resource::compute)
      .launch(nullptr, nullptr, 0, {current_op().flops, current_op().bytes, current_op().seconds});
  end_op();
  return nullptr;
}

void Engine::leave() { end_op(); }

void Engine::expect_op(const char* name) const {
  const auto fail = [&](const std::string& why) {
    throw StateError(std::string("op ") + name + " was run " + why);
  };
  if (!running_) fail("outside a program; call begin first");
  if (in_op_) fail("inside another op, or after one failed");
  const bool ended = cursor_ >= program_->ops().size();
  if (ended || std::strcmp(current_op().name, name) != 0) {
    fail(std::string("where the program has ") + (ended ? "its end" : current_op().name) +
         "; run the block calls in the program's order");
  }
}

void Engine::run_program() {
  while (cursor_ < program_->ops().size()) {
    enter({current_op().name}, {}, {}, {});
  }
}

void Engine::begin_op() {
  const ProgramOp& op = current_op();
  Stream& compute = backend_.stream(Resource::compute);
  in_op_ = true;
  backend_.wait(op_fences_[tick_ % op_fences_.size()]);
  run_actions();
  for (const ObjUse& u : op.uses) {
    if (pending_[u.object.chunk].speculated) conclude_speculation();
  }
  for (const ObjUse& u : op.uses) {
    if (pending_[u.object.chunk].pending) update(u.object.chunk);
  }
  if (program_->trains() && options_.clip > 0 && expectation_known_ && expects_) {
    for (const ObjUse& u : op.uses) keep_older(u.object.chunk);
  }
  for (const ObjUse& u : op.uses) table_.pin(u.object);
  for (const ObjUse& u : op.uses) make_present(u);
  for (const ObjUse& u : op.uses) end_prefetch(u.object, Ahead::needed);
  if (policy_.fetches_in_order()) look_ahead();
  note(Issued::op);
  if (options_.timeline != nullptr) {
    compute.set_label(options_.timeline->op(cursor_));
    options_.timeline->issued(cursor_, ledger_);
  }
  ++tick_;
  const bool skip_wait = options_.mutations.skip_fetch_wait == tick_;
  for (const ObjUse& u : op.uses) {
    last_use(u.object) = tick_;
    const bool ahead = std::exchange(ahead_[object_index(u.object)], Ahead::no) == Ahead::needed;
    if (ahead && options_.observer != nullptr) options_.observer->waits_for_fetched_ahead(true);
    const UnitList& units = table_.at(u.object).at(Place::device).units;
    for (uint32_t i = 0; i < units.count; ++i) {
      const Hazard& hazard = pool(Place::device).hazard(units.ids[i]);
      if (u.access == Access::read) {
        if (!skip_wait) hazard.order_read(compute, Resource::compute);
      } else {
        hazard.order_write(compute, Resource::compute);
      }
    }
    if (ahead && options_.observer != nullptr) options_.observer->waits_for_fetched_ahead(false);
  }
  zero_sparse_gradients(op);
}

void Engine::end_op() {
  const ProgramOp& op = current_op();
  Stream& compute = backend_.stream(Resource::compute);
  add_staged_gradients(op);
  for (const ChunkId c : op.completes) sum_squares(c);
  const Fence fence = compute.record();
  for (const ObjUse& u : op.uses) {
    if (u.access == Access::read) {
      read_units(units_of(u.object, Place::device), Place::device, Resource::compute, fence);
    } else {
      write_units(units_of(u.object, Place::device), Place::device, Resource::compute, fence);
      table_.written(u.object, Place::device);
    }
    table_.unpin(u.object);
  }
  op_fences_[(tick_ - 1) % op_fences_.size()] = fence;
  in_op_ = false;
  ++cursor_;
  for (const ChunkId c : op.completes) gradient_complete(c, fence);
  for (const ObjUse& u : op.uses) retire_weights(u.object.chunk);
  if (!policy_.fetches_in_order()) look_ahead();
}

void Engine::zero_sparse_gradients(const ProgramOp& op) {
  for (const GradTarget& g : op.grads) {
    if (!g.sparse || !g.first) continue;
    const ScatteredTensor t = accumulator(g.param);
    for (uint32_t i = 0; i < t.count; ++i) {
      launch_native<zero_bytes, HostContext>(
          stream(), Cost{0, t.pieces[i].elems * size_of(shape_.grad_type())}, t.pieces[i].data,
          t.pieces[i].elems * size_of(shape_.grad_type()));
    }
  }
}

void Engine::add_staged_gradients(const ProgramOp& op) {
  const DType from = shape_.weight_type(), to = shape_.grad_type();
  for (const GradTarget& g : op.grads) {
    if (g.direct || g.sparse) continue;
    const std::byte* staged = values_ + op.staging_offset + g.staging_offset;
    const ScatteredTensor t = accumulator(g.param);
    for (uint32_t i = 0; i < t.count; ++i) {
      const ScatteredTensor::Piece& p = t.pieces[i];
      const Cost cost{0, p.elems * (size_of(from) + 2 * size_of(to))};
      const void* src = staged + p.begin * size_of(from);
      if (g.first) {
        launch_native<store_gradient, HostContext>(stream(), cost, p.data, to, src, from, p.elems);
      } else {
        launch_native<add_gradient, HostContext>(stream(), cost, p.data, to, src, from, p.elems);
      }
    }
  }
}

void Engine::end() {
  if (!running_ || cursor_ != program_->ops().size()) {
    throw StateError(running_ ? "a program was ended before its last op"
                              : "a program was ended that was not begun");
  }
  running_ = false;
  if (!program_->trains()) return;
  issue_norm();
  if (options_.timeline != nullptr) options_.timeline->end_step();
}

StepResult Engine::result(uint32_t back) {
  const StepMirror& m = mirrors_[(steps_begun_ - 1 - back) % 2];
  backend_.wait(m.done);
  for (const Fence& f : m.updates) backend_.wait(f);
  const StepRecord& r = m.record;
  return {
      r.loss,           r.grad_norm,           r.scale.apply != 0,
      r.nonfinite_grad, r.nonfinite_loss != 0, nonfinite_weight_.load(std::memory_order_relaxed)};
}

double Engine::evaluation_loss() {
  double loss = 0;
  Stream& d2h = backend_.stream(Resource::d2h);
  d2h.wait(op_fences_[(tick_ - 1) % op_fences_.size()]);
  d2h.copy(&loss, record_base_ + records_.losses(), sizeof loss);
  backend_.wait(d2h.record());
  return loss;
}

void Engine::run_actions() {
  const auto& actions = plan_.actions;
  if (program_index_ >= actions.size()) return;
  const auto& list = actions[program_index_];
  while (next_action_ < list.size() && list[next_action_].issue_before <= cursor_) {
    apply(list[next_action_++]);
  }
}

void Engine::apply(const Action& a) {
  if (a.object.chunk >= layout_.chunks()) {  // a plan for another layout
    ++stats_.hints_skipped;
    return note(Issued::skipped_hint, a.object);
  }
  const Object& o = table_.at(a.object);
  const Copy& device = o.at(Place::device);
  bool done = false;
  switch (a.act) {
    case Act::fetch:
      if (!o.exists || a.object.plane > Plane::grad) break;
      if (a.object.plane == Plane::weight && pending_[a.object.chunk].pending) {
        update(a.object.chunk);
      }
      if (o.home == Place::device || o.version == 0 || o.current(Place::device)) break;
      if (!device.present() && !try_attach(a.object, false)) break;
      fetch(a.object);
      begin_prefetch(a.object);
      done = true;
      break;
    case Act::evict:
      if (!o.exists || !device.present() || !evictable(a.object)) break;
      evict(a.object);
      done = true;
      break;
    case Act::write_back:
      if (!o.exists || o.home == Place::device || !o.current(Place::device) || o.home_current()) {
        break;
      }
      write_back(a.object, Place::device);
      done = true;
      break;
    case Act::update:
      if (!pending_[a.object.chunk].pending) break;
      update(a.object.chunk);
      done = true;
      break;
  }
  if (!done) {
    ++stats_.hints_skipped;
    note(Issued::skipped_hint, a.object);
  }
}

void Engine::look_ahead() {
  // One unit stays free for what the next op makes; where that goes to NVMe, what the op before
  // made is still being written from another.
  const uint32_t kept_free = updates_on_device() ? 2 : 1;
  const OpIndex end = std::min<OpIndex>(cursor_ + policy_.look_ahead(),
                                        static_cast<OpIndex>(program_->ops().size()));
  const auto has_room = [&](ObjId id, OpIndex needed_by) {
    if (windows_.first_unit(id) >= 0) return true;
    while (pool(Place::device).free_units() <= kept_free) {
      if (!policy_.evicts_for_prefetch() || !evict_one(needed_by + 1 - cursor_)) return false;
    }
    return true;
  };
  for (OpIndex i = cursor_; i < end; ++i) {
    for (const ObjUse& u : program_->ops()[i].uses) {
      if (u.object.plane != Plane::weight) continue;
      if (pending_[u.object.chunk].pending) {
        if (policy_.fetches_in_order()) return;
        if (!make_room_for_update(u.object.chunk, i)) return;
        update(u.object.chunk);
      }
      const Object& o = table_.at(u.object);
      if (o.current(Place::device)) continue;
      if (waiting_prefetches_ >= policy_.prefetch_limit()) return;
      if (!o.at(Place::device).present() &&
          (!has_room(u.object, i) || !try_attach(u.object, false))) {
        return;
      }
      fetch(u.object);
      begin_prefetch(u.object);
    }
  }
}

}  // namespace strata
