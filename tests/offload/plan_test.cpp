#include "offload/plan.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "offload/step_record.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata {
namespace {

constexpr auto kNothing = [](OpScope&) {};
constexpr ChunkPlacement kDevice = ChunkPlacement::all(Place::device),
                         kHost = ChunkPlacement::all(Place::host),
                         kKept = ChunkPlacement::all(Place::host, true);

/// Chunk 0: a whole tensor; 1 and 2: a spanning one; 3: a frozen one.
struct Case {
  explicit Case(DType dtype = DType::f32, uint32_t accum = 1)
      : params({{"a", {2048}, dtype, 0, true, true, {}},
                {"big", {4096}, dtype, 0, true, true, {}},
                {"frozen", {64}, dtype, 0, false, true, {}}}),
        layout(ChunkLayout::build(params, {2048, 1})),
        train(Program::lower(trace(), layout, {accum, {}})),
        shape(layout, train, {}) {}

  static Trace trace() {
    Tracer t(1, {{"x", 1000}});
    t.begin(CallKind::forward, 0);
    t.op({"forward"}, {reads(0), reads(1), reads(2)}, {}, {0}, kNothing);
    t.begin(CallKind::backward, 0);
    t.op({"backward", 0, 0, 100}, {reads(0), grad_of(0), grad_of(1), reads(2)}, {0}, {}, kNothing);
    return t.take();
  }

  MemoryNeed need(const std::vector<ChunkPlacement>& placement) const {
    return memory_need(layout, shape, {&train}, placement);
  }

  std::vector<ParamSpec> params;
  ChunkLayout layout;
  Program train;
  StateShape shape;
};

struct Expected {
  uint32_t fixed, home, kept, stream, host;
};

void expect_need(const MemoryNeed& n, const Expected& e, const char* what) {
  EXPECT_EQ(n.fixed_units, e.fixed) << what;
  EXPECT_EQ(n.home_units, e.home) << what;
  EXPECT_EQ(n.kept_units, e.kept) << what;
  EXPECT_EQ(n.stream_units, e.stream) << what;
  EXPECT_EQ(n.host_units, e.host) << what;
  EXPECT_EQ(n.device_units(), e.fixed + e.home + e.kept + e.stream) << what;
}

TEST(MemoryNeed, EqualsWhatIsCountedByHand) {
  const Case s;
  // Weights and gradients of the spanning tensor have windows. The backward op streams a, its
  // gradient and the frozen tensor; two more units for the two links.
  expect_need(s.need({kHost, kHost, kHost, kHost}), {4, 0, 0, 3 + 2, 4 + 4 + 4 + 1}, "host");
  // Homes: weight, gradient, m and v; beside windows m and v alone; the frozen weight.
  expect_need(s.need({kDevice, kDevice, kDevice, kDevice}), {4, 4 + 2 + 2 + 1, 0, 0, 0}, "device");
  expect_need(s.need({kKept, kHost, kHost, kHost}), {4, 0, 1, 2 + 2, 13}, "kept");
  expect_need(s.need({kHost, kKept, kHost, kHost}), {4, 0, 0, 3 + 2, 13}, "a window is kept free");
  expect_need(s.need({kDevice, kHost, kHost, kHost}), {4, 4, 0, 1 + 2, 9}, "one on the device");
}

TEST(MemoryNeed, CountsBothUnitsOfAnAccumulator) {
  const Case s(DType::bf16, 2);
  // w 1, grad 2, remainder 1, m 2, v 2.
  expect_need(s.need({kHost, kHost, kHost, kHost}), {2 * 3, 0, 0, 4 + 2, 3 * 8 + 1}, "host");
}

TEST(MemoryNeed, ValuesScratchAndRecordsAreNotUnits) {
  const Case s;
  EXPECT_EQ(s.train.non_model_bytes(), 1024u + 128u);
  const MemoryNeed n = s.need({kHost, kHost, kHost, kHost});
  EXPECT_EQ(n.non_model_bytes, s.train.non_model_bytes() + record_bytes(s.layout, s.shape, 1));
  EXPECT_GT(record_bytes(s.layout, s.shape, 100), record_bytes(s.layout, s.shape, 1));
  EXPECT_EQ(record_bytes(s.layout, s.shape, 1) % 64, 0u);
}

TEST(MemoryNeed, WeightsThatAreOnlyReadHaveRoomToBeLoadedIntoNvme) {
  const Case s;
  const auto need = [&](Place frozen, Place staging) {
    return memory_need(s.layout, s.shape, {&s.train},
                       {kHost, kHost, kHost, ChunkPlacement::all(frozen)}, staging);
  };
  const MemoryNeed host = need(Place::nvme, Place::host);
  EXPECT_EQ(host.nvme_units, 1u);
  EXPECT_EQ(host.host_units, need(Place::host, Place::host).host_units - 1 + 2);
  const MemoryNeed device = need(Place::nvme, Place::device);
  EXPECT_EQ(device.host_units, need(Place::host, Place::host).host_units - 1);
  EXPECT_GE(device.stream_units, 1u + 2u);
}

TEST(MemoryNeed, TakesTheLargestProgram) {
  toy::Model model({3, 40, 40, 6, DType::f32});
  const ChunkLayout layout = ChunkLayout::build(model.params(), {2048, 1});
  const Program train = Program::lower(model.trace(true), layout, {1, {}});
  const Program eval = Program::lower(model.trace(false), layout, {1, {}});
  const StateShape shape(layout, train, {});
  const std::vector<ChunkPlacement> host(layout.chunks(), kHost);
  const MemoryNeed both = memory_need(layout, shape, {&train, &eval}, host);
  EXPECT_EQ(both.stream_units, memory_need(layout, shape, {&train}, host).stream_units);
  EXPECT_EQ(both.non_model_bytes, std::max(train.non_model_bytes(), eval.non_model_bytes()) +
                                      record_bytes(layout, shape, 1));
}

TEST(WindowMap, SpanningTensorsAreContiguousInBothPlanes) {
  for (const uint32_t accum : {1u, 2u}) {
    const std::vector<ParamSpec> params = {{"a", {2048}, DType::bf16, 0, true, true, {}},
                                           {"big", {5000}, DType::bf16, 0, true, true, {}},
                                           {"tail", {100}, DType::bf16, 0, true, true, {}},
                                           {"more", {6000}, DType::bf16, 0, true, true, {}},
                                           {"b", {2048}, DType::bf16, 0, true, true, {}}};
    const ChunkLayout layout = ChunkLayout::build(params, {2048, 1});
    Tracer t(1, {});
    t.begin(CallKind::backward, 0);
    t.op({"op"}, {grad_of(0), grad_of(1), grad_of(3)}, {}, {}, kNothing);
    const Program train = Program::lower(t.take(), layout, {accum, {}});
    const StateShape shape(layout, train, {});
    const WindowMap windows(layout, shape);
    std::set<int64_t> used;
    for (const ParamId p : {1u, 3u}) {
      for (const Plane plane : {Plane::weight, Plane::grad}) {
        int64_t next = -1;
        for (const Piece& piece : layout.of_param(p)) {
          const ObjId id{piece.chunk, plane};
          const int64_t first = windows.first_unit(id);
          ASSERT_GE(first, 0);
          EXPECT_TRUE(next < 0 || first == next) << "tensor " << p << " " << name_of(plane);
          next = first + shape.units(id);
          for (int64_t u = first; u < next; ++u) EXPECT_TRUE(used.insert(u).second) << u;
        }
      }
    }
    EXPECT_EQ(used.size(), windows.units());
    EXPECT_EQ(*used.rbegin(), windows.units() - 1);
    for (const ParamId p : {0u, 4u}) {
      const ChunkId c = layout.of_param(p).front().chunk;
      EXPECT_EQ(windows.first_unit({c, Plane::weight}), -1);
      EXPECT_EQ(windows.first_unit({c, Plane::grad}), -1);
    }
    EXPECT_EQ(windows.first_unit({1, Plane::m}), -1) << "records have no window";
  }
}

TEST(Plan, HashChangesWithEveryField) {
  Plan base;
  base.policy = "p";
  base.chunks = {kDevice, kHost};
  base.device_units = 3;
  base.host_units = 4;
  base.need.non_model_bytes = 64;
  base.actions = {{{Act::fetch, {1, Plane::weight}, 2}}, {}};
  EXPECT_EQ(base.hash(), Plan(base).hash());
  const std::function<void(Plan&)> changes[] = {
      [](Plan& p) { p.policy = "q"; },
      [](Plan& p) { p.chunks[0].homes[0] = Place::host; },
      [](Plan& p) { p.chunks[1].keep_weight = true; },
      [](Plan& p) { p.chunks.push_back(kDevice); },
      [](Plan& p) { p.device_units = 4; },
      [](Plan& p) { p.host_units = 3; },
      [](Plan& p) { std::swap(p.device_units, p.host_units); },
      [](Plan& p) { p.need.non_model_bytes = 128; },
      [](Plan& p) { p.actions[0][0].act = Act::evict; },
      [](Plan& p) { p.actions[0][0].object.chunk = 0; },
      [](Plan& p) { p.actions[0][0].object.plane = Plane::grad; },
      [](Plan& p) { p.actions[0][0].issue_before = 1; },
      [](Plan& p) { p.actions[0].clear(); },
      [](Plan& p) { std::swap(p.actions[0], p.actions[1]); },
      [](Plan& p) { p.actions.push_back({}); },
  };
  std::set<uint64_t> hashes = {base.hash()};
  for (size_t i = 0; i < std::size(changes); ++i) {
    Plan p = base;
    changes[i](p);
    EXPECT_TRUE(hashes.insert(p.hash()).second) << "change " << i;
  }
}

}  // namespace
}  // namespace strata
