// What an engine lets its policy choose from, against its table and the program.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

/// Ops from `cursor` until an object is used, in this program or the training step after it.
uint64_t distance(const Plans& plans, const Program& program, ObjId id, OpIndex cursor) {
  const auto uses = [&](const ProgramOp& op) {
    return std::ranges::any_of(op.uses, [&](const ObjUse& u) { return u.object == id; });
  };
  uint64_t n = 0;
  for (const Program* p : {&program, &plans.train}) {
    for (; cursor < p->ops().size(); ++cursor, ++n) {
      if (uses(p->ops()[cursor])) return n;
    }
    cursor = 0;
  }
  return n;
}

/// Looks at everything each time it is asked.
struct Auditor final : Policy {
  explicit Auditor(const Plans& p) : plans(p) {}

  std::string name() const override { return "auditor"; }
  std::vector<ChunkPlacement> place(const PlacementInput& in) const override {
    auto chunks = place_below_device(in);
    chunks[1].keep_weight = true;
    return chunks;
  }
  uint32_t look_ahead() const noexcept override { return 5; }
  bool evicts_for_prefetch() const noexcept override { return true; }

  size_t choose_victim(std::span<const Victim> victims) const override {
    if (engine != nullptr) audit(victims);
    return Policy::choose_victim(victims);
  }

  void audit(std::span<const Victim> victims) const {
    ++asked;
    const auto cursor = static_cast<OpIndex>(running->ops().size() - victims[0].program_end);
    const WindowMap windows(plans.layout, plans.shape);
    size_t next = 0;
    uint64_t nearest = UINT64_MAX;  // of the weights it may choose
    for (const Victim& v : victims) {
      if (v.object.plane == Plane::weight) nearest = std::min(nearest, v.next_use);
    }
    for (ChunkId c = 0; c < plans.layout.chunks(); ++c) {
      for (const Plane plane : {Plane::weight, Plane::grad}) {
        const ObjId id{c, plane};
        const Object& o = engine->table().at(id);
        const uint64_t used = distance(plans, *running, id, cursor);
        const bool listed = next < victims.size() && victims[next].object == id;
        const bool kept = plane == Plane::weight && plan->chunks[c].keep_weight;
        const bool may_go = o.at(Place::device).present() && o.pins == 0 &&
                            o.home != Place::device && !kept && windows.first_unit(id) < 0;
        if (listed) {
          ASSERT_TRUE(may_go) << c;
          // A gradient that waits for its update is used before the weights are.
          if (plane == Plane::weight || victims[next].next_use != used) {
            ASSERT_EQ(victims[next].next_use, distance(plans, *running, {c, Plane::weight}, cursor))
                << c << " at " << cursor;
          }
          ++next;
        } else if (may_go && plane == Plane::weight) {
          ASSERT_LT(used, nearest) << c << " is left out, which is used later than others";
        }
      }
    }
    ASSERT_EQ(next, victims.size()) << "not in the order of chunks";
  }

  const Plans& plans;
  const Engine* engine = nullptr;  // null while the plan is made
  const Plan* plan = nullptr;
  const Program* running = nullptr;
  mutable uint64_t asked = 0;
};

TEST(Victims, AreAllCopiesThatMayGoInOrderOfChunks) {
  for (const double clip : {0.0, 0.5}) {
    for (const double host_share : {1.0, 0.3}) {
      Config c;
      c.shape = {8, 40, 100, 6, DType::f32};
      c.policy = "lru";
      c.memory = 0.4;
      c.clip = clip;
      c.host_share = host_share;
      const Plans plans(c);
      Auditor policy(plans);
      const PlanInput in{plans.layout,   plans.shape,     plans.programs, policy,
                         *plans.updater, plans.budgets(), clip,           {}};
      const PlanResult planned = make_plan(in);
      ASSERT_TRUE(planned.fits);
      VirtualBackend backend({});
      Ledger ledger(in.budgets.bytes);
      EngineOptions options;
      options.clip = clip;
      Engine engine(backend, plans.layout, plans.shape, planned.plan, policy, *plans.updater,
                    plans.programs, ledger, options);
      engine.zero_state();
      for (ParamId p = 0; p < plans.layout.params().size(); ++p) {
        if (plans.layout.storage_of(p) == p) engine.set_weight(p, {});
      }
      policy.engine = &engine;
      policy.plan = &planned.plan;
      for (const uint32_t program : {0u, 0u, 1u, 1u, 0u}) {
        policy.running = plans.programs[program];
        engine.begin(program, {});
        engine.run_program();
        engine.end();
      }
      engine.flush();
      EXPECT_GT(policy.asked, 20u);
    }
  }
}

}  // namespace
}  // namespace strata::toy
