// Ops in the wrong order, ops that declare too little, bodies and kernels that throw: a clear error
// each, and an engine that still goes away cleanly.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "runtime/errors.hpp"
#include "runtime/thread_pool.hpp"
#include "tests/offload/toy_rig.hpp"

namespace strata::toy {
namespace {

Config config() {
  Config c;
  c.shape = {2, 40, 100, 6, DType::f32};
  c.policy = "lru";
  c.memory = 0;
  return c;
}

void expect_state_error(const std::function<void()>& body, const std::string& part) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; expected " << part;
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

void expect_ledger_returns_to_zero(Rig& rig) {
  rig.engine.reset();
  for (size_t t = 0; t < kTiers; ++t) EXPECT_EQ(rig.ledger.now(static_cast<Tier>(t)), 0u);
}

TEST(EngineMisuse, CallsOutOfOrderAreRefused) {
  Rig rig(config());
  Engine& engine = *rig.engine;
  const auto calls = rig.plans.train.calls();
  const auto call = [&](size_t i) { rig.plans.model.run(engine, calls[i], true); };
  rig.fill_batch(0);
  expect_state_error([&] { call(0); }, "call begin first");
  expect_state_error([&] { engine.end(); }, "not begun");
  engine.begin(0, rig.params_of(0));
  expect_state_error([&] { engine.begin(0, rig.params_of(0)); }, "before the last one ended");
  expect_state_error([&] { engine.end(); }, "before its last op");
  expect_state_error([&] { call(1); }, "op mix was run where the program has load");
  for (size_t i = 0; i < calls.size(); ++i) call(i);
  expect_state_error([&] { call(0); }, "its end");
  engine.end();
  expect_state_error([&] { engine.end(); }, "not begun");
  expect_state_error([&] { call(0); }, "call begin first");
  expect_ledger_returns_to_zero(rig);
}

TEST(EngineMisuse, RefusedCallsChangeNoNumber) {
  Rig plain(config()), poked(config());
  for (uint64_t s = 0; s < 2; ++s) {
    plain.step(s);
    poked.fill_batch(s);
    poked.engine->begin(0, poked.params_of(s));
    for (const BlockCall& c : poked.plans.train.calls()) {
      EXPECT_THROW(poked.engine->op({"nonsense"}, {}, {}, {}, [](OpScope&) {}), StateError);
      poked.plans.model.run(*poked.engine, c, true);
    }
    poked.engine->end();
  }
  EXPECT_TRUE(plain.state() == poked.state());
}

TEST(EngineMisuse, WhatAnOpDidNotDeclareIsRefused) {
  const std::function<void(OpScope&)> bodies[] = {
      [](OpScope& o) { o.weight(1); },       // of a block, in another chunk
      [](OpScope& o) { o.gradient(0); },     // read only in this op
      [](OpScope& o) { o.accumulator(0); },  //
      [](OpScope& o) { o.value(7); },
  };
  const char* expected[] = {"the weight of h.0.w", "the gradient of emb", "the grad of emb",
                            "value 7"};
  for (size_t i = 0; i < std::size(bodies); ++i) {
    Rig rig(config());
    Engine& engine = *rig.engine;
    rig.fill_batch(0);
    engine.begin(0, rig.params_of(0));
    engine.op({"load"}, {}, {}, {}, [](OpScope&) {});
    expect_state_error([&] { engine.op({"lookup"}, {}, {}, {}, bodies[i]); },
                       std::string("op lookup did not declare ") + expected[i]);
    expect_ledger_returns_to_zero(rig);
  }
}

TEST(EngineMisuse, NestedOpsAreRefused) {
  Rig rig(config());
  Engine& engine = *rig.engine;
  engine.begin(0, rig.params_of(0));
  const auto inner = [](OpScope&) {};
  expect_state_error(
      [&] {
        engine.op({"load"}, {}, {}, {}, [&](OpScope&) { engine.op({"load"}, {}, {}, {}, inner); });
      },
      "inside another op");
  expect_ledger_returns_to_zero(rig);
}

TEST(EngineMisuse, AfterABodyThrewTheEngineSaysSoAndEndsCleanly) {
  Rig rig(config());
  Engine& engine = *rig.engine;
  rig.step(0);
  engine.begin(0, rig.params_of(1));
  const auto throws = [](OpScope&) { throw std::runtime_error("from the body"); };
  EXPECT_THROW(engine.op({"load"}, {}, {}, {}, throws), std::runtime_error);
  expect_state_error([&] { engine.op({"lookup"}, {}, {}, {}, [](OpScope&) {}); }, "one failed");
  expect_state_error([&] { engine.begin(0, rig.params_of(1)); }, "one of its ops failed");
  expect_state_error([&] { engine.end(); }, "before its last op");
  expect_ledger_returns_to_zero(rig);
}

void kernel_that_throws(HostContext&) { throw std::runtime_error("from the kernel"); }

TEST(EngineMisuse, AKernelsExceptionReachesTheIssuerAndEndsCleanly) {
  Rig rig(config());
  Engine& engine = *rig.engine;
  rig.fill_batch(0);
  const auto run = [&] {
    engine.begin(0, rig.params_of(0));
    engine.op({"load"}, {}, {}, {}, [](OpScope& o) {
      launch_native<kernel_that_throws, HostContext>(o.stream(), Cost{});
    });
    const auto calls = rig.plans.train.calls();
    engine.op({"lookup"}, {}, {}, {}, [](OpScope&) {});
    for (size_t i = 1; i < calls.size(); ++i) rig.plans.model.run(engine, calls[i], true);
    engine.end();
    engine.result(0);
  };
  try {
    run();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "from the kernel");
  }
  expect_ledger_returns_to_zero(rig);
}

TEST(EngineMisuse, APlanForAnotherLayoutIsRefused) {
  Config c = config();
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) { plan.chunks.pop_back(); };
  expect_state_error([&] { Rig rig(c); }, "plan again for this layout");
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) { plan.device_units = 0; };
  EXPECT_THROW(Rig{c}, StateError);
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) { plan.host_units /= 2; };
  expect_state_error([&] { Rig rig(c); }, "host homes exceed");
}

TEST(EngineMisuse, AProgramWithMoreMicroBatchesThanTrainingIsRefused) {
  Rig rig(config());
  Plans& p = rig.plans;
  const Program wide = Program::lower(p.model.trace(false), p.layout, {3, {}});
  Ledger ledger(rig.budgets.bytes);
  expect_state_error(
      [&] {
        Engine(*rig.backend, p.layout, p.shape, rig.plan, *p.policy, *p.updater, {&p.train, &wide},
               ledger, {});
      },
      "a program has 3 micro-batches");
}

TEST(EngineMisuse, MoreUnitsThanTheBudgetAreRefused) {
  Config c = config();
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) {
    plan.need.non_model_bytes += size_t{1} << 30;
  };
  EXPECT_THROW(Rig{c}, DoesNotFit);
}

TEST(EngineMisuse, HintsForChunksThatDoNotExistAreSkipped) {
  Config c = config();
  Rig plain(c);
  c.tamper = [](const std::vector<const Program*>&, Plan& plan) {
    plan.actions.assign(
        1, {{Act::fetch, {12345, Plane::weight}, 0}, {Act::update, {12345, Plane::weight}, 3}});
  };
  Rig rig(c);
  plain.step(0);
  rig.step(0);
  EXPECT_EQ(rig.engine->stats().hints_skipped, 2u);
  EXPECT_TRUE(rig.state() == plain.state());
}

}  // namespace
}  // namespace strata::toy
