#include "offload/program.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "runtime/errors.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata {
namespace {

constexpr auto kNothing = [](OpScope&) {};
constexpr uint64_t kSmall = 640, kLarge = 6400, kScratch = 3000;

/// A chain of `layers` blocks between a lookup and a loss, the head tied to the lookup's tensor.
struct Chain {
  explicit Chain(uint32_t n, DType dtype = DType::f32) : layers(n) {
    params.push_back({"emb", {32, 64}, dtype, 0, true, true, {}});
    for (uint32_t l = 1; l <= n; ++l) {
      params.push_back({"w" + std::to_string(l), {32, 64}, dtype, 0, true, true, {}});
    }
    params.push_back({"head", {32, 64}, dtype, 0, true, true, 0});
    std::vector<ValueSpec> values;
    for (uint32_t l = 0; l <= n; ++l) {
      values.push_back({"x" + std::to_string(l), kSmall});
      values.push_back({"h" + std::to_string(l), kLarge});
      values.push_back({"d" + std::to_string(l), kSmall});
    }
    Tracer t(n + 2, values);
    t.begin(CallKind::forward, 0);
    t.op({"lookup"}, {reads(0)}, {}, {x(0)}, kNothing);
    for (uint32_t l = 1; l <= n; ++l) {
      t.begin(CallKind::forward, l);
      t.op({"expand", 7, 9, kScratch}, {reads(l)}, {x(l - 1)}, {h(l)}, kNothing);
      t.op({"project"}, {}, {x(l - 1), h(l)}, {x(l)}, kNothing);
    }
    t.begin(CallKind::backward, n + 1);
    t.op({"loss"}, {reads(head()), grad_of(head())}, {x(n)}, {d(n)}, kNothing);
    for (uint32_t l = n; l >= 1; --l) {
      t.begin(CallKind::backward, l);
      t.op({"w_grad"}, {grad_of(l)}, {x(l - 1), h(l), d(l)}, {}, kNothing);
      t.op({"x_grad"}, {reads(l)}, {d(l), h(l)}, {d(l - 1)}, kNothing);
    }
    t.begin(CallKind::tail, 0);
    t.op({"lookup_grad"}, {adds_to_grad_of(0)}, {d(0)}, {}, kNothing);
    trace = t.take();
  }

  ParamId head() const { return layers + 1; }
  static ValueId x(uint32_t l) { return 3 * l; }
  static ValueId h(uint32_t l) { return 3 * l + 1; }
  static ValueId d(uint32_t l) { return 3 * l + 2; }
  ChunkLayout layout(uint64_t chunk = 2048) const { return ChunkLayout::build(params, {chunk, 1}); }
  std::vector<bool> all() const { return std::vector<bool>(layers + 2, true); }

  uint32_t layers;
  std::vector<ParamSpec> params;
  Trace trace;
};

std::vector<std::string> text_of_calls(const Program& p) {
  std::vector<std::string> out;
  for (const BlockCall& c : p.calls()) {
    out.push_back(std::string(name_of(c.kind)) + std::to_string(c.block) + "." +
                  std::to_string(c.micro_batch));
  }
  return out;
}

/// The traced op behind an op of a program.
const TraceOp& traced(const Trace& trace, const Program& p, OpIndex i) {
  const BlockCall& call = p.calls()[p.ops()[i].call];
  return trace.find(call.kind, call.block)->ops[i - call.first_op];
}

/// What every program holds: runs the program on a memory of stamps. Each op must find what the
/// last maker of each of its inputs left there, and leaves garbage in its scratch.
void expect_values_survive(const Trace& trace, const ChunkLayout& layout, const Program& p) {
  constexpr uint64_t kCell = 64;
  std::vector<uint64_t> memory(p.non_model_bytes() / kCell, 0);
  const auto put = [&](uint64_t offset, uint64_t bytes, uint64_t stamp) {
    ASSERT_EQ(offset % kCell, 0u);
    ASSERT_LE(offset + bytes, p.non_model_bytes());
    for (uint64_t i = 0; i * kCell < bytes; ++i) memory[offset / kCell + i] = stamp;
  };
  std::map<std::pair<ValueId, uint32_t>, uint64_t> stamps;
  uint64_t next = 1;
  for (OpIndex i = 0; i < p.ops().size(); ++i) {
    const ProgramOp& op = p.ops()[i];
    const TraceOp& t = traced(trace, p, i);
    ASSERT_EQ(t.name, op.name);
    if (op.skip) continue;
    ASSERT_EQ(op.values.size(), t.in.size() + t.out.size());
    std::vector<std::array<uint64_t, 3>> scratch;  // offset, bytes, stamp
    if (t.workspace != 0) scratch.push_back({op.workspace_offset, t.workspace, next++});
    for (const GradTarget& g : op.grads) {
      if (g.direct || g.sparse) continue;
      const ParamSpec& spec = layout.params()[g.param];
      scratch.push_back(
          {op.staging_offset + g.staging_offset, spec.elems() * size_of(spec.dtype), next++});
    }
    for (const auto& [offset, bytes, stamp] : scratch) put(offset, bytes, stamp);
    for (size_t v = t.in.size(); v < op.values.size(); ++v) {
      stamps[{op.values[v].value, op.micro_batch}] = next;
      put(op.values[v].offset, trace.values[op.values[v].value].bytes, next++);
    }
    for (const auto& [offset, bytes, stamp] : scratch) {
      for (uint64_t at = 0; at < bytes; at += kCell) {
        ASSERT_EQ(memory[(offset + at) / kCell], stamp) << "scratch of " << op.name;
      }
    }
    for (size_t v = 0; v < t.in.size(); ++v) {
      const uint64_t bytes = trace.values[op.values[v].value].bytes;
      for (uint64_t at = 0; at < bytes; at += kCell) {
        ASSERT_EQ(memory[(op.values[v].offset + at) / kCell],
                  stamps.at({op.values[v].value, op.micro_batch}))
            << op.name << " at op " << i << ", input " << trace.values[op.values[v].value].name;
      }
    }
  }
}

TEST(Program, CallsAreHorizontalWithTailsAtTheEnd) {
  const Chain chain(2);
  const Program p = Program::lower(chain.trace, chain.layout(), {2, {}});
  EXPECT_EQ(text_of_calls(p),
            (std::vector<std::string>{"forward0.0", "forward1.0", "forward2.0", "backward3.0",
                                      "backward2.0", "backward1.0", "forward0.1", "forward1.1",
                                      "forward2.1", "backward3.1", "backward2.1", "backward1.1",
                                      "tail0.0", "tail0.1"}));
  OpIndex next = 0;
  for (uint32_t c = 0; c < p.calls().size(); ++c) {
    EXPECT_EQ(p.calls()[c].first_op, next);
    next = p.calls()[c].end_op;
    for (OpIndex i = p.calls()[c].first_op; i < next; ++i) {
      EXPECT_EQ(p.ops()[i].call, c);
      EXPECT_EQ(p.ops()[i].micro_batch, p.calls()[c].micro_batch);
    }
  }
  EXPECT_EQ(next, p.ops().size());
  EXPECT_EQ(p.micro_batches(), 2u);
  EXPECT_TRUE(p.trains());
}

TEST(Program, ReforwardComesBeforeEachBackwardOfItsBlock) {
  const Chain chain(2);
  const Program p = Program::lower(chain.trace, chain.layout(), {1, {false, true, false, false}});
  EXPECT_EQ(text_of_calls(p),
            (std::vector<std::string>{"forward0.0", "forward1.0", "forward2.0", "backward3.0",
                                      "backward2.0", "reforward1.0", "backward1.0", "tail0.0"}));
}

TEST(Program, ReforwardSkipsWhatNobodyReads) {
  const Chain chain(3);
  const Program p = Program::lower(chain.trace, chain.layout(), {1, chain.all()});
  uint32_t run = 0, skipped = 0;
  for (const ProgramOp& op : p.ops()) {
    const bool again = p.calls()[op.call].kind == CallKind::reforward;
    const bool unread = std::string(op.name) == "project" && again;
    EXPECT_EQ(op.skip, unread) << op.name;
    if (op.skip) {
      EXPECT_TRUE(op.uses.empty() && op.values.empty() && op.completes.empty());
    }
    run += again && !op.skip;
    skipped += op.skip;
  }
  EXPECT_EQ(run, 3u);  // expand of each block
  EXPECT_EQ(skipped, 3u);
}

TEST(Program, OpsCarryCostsAndScratch) {
  const Chain chain(1);
  const Program p = Program::lower(chain.trace, chain.layout(), {1, {}});
  const ProgramOp& expand = p.ops()[1];
  EXPECT_STREQ(expand.name, "expand");
  EXPECT_EQ(expand.flops, 7u);
  EXPECT_EQ(expand.bytes, 9u);
  EXPECT_LE(expand.workspace_offset + kScratch, p.non_model_bytes());
}

TEST(Program, KnownSecondsComeAlong) {
  Chain chain(2);
  chain.trace.segments[1].ops[0].seconds = 0.5;  // forward of block 1
  const Program p = Program::lower(chain.trace, chain.layout(), {2, chain.all()});
  int known = 0;
  for (const ProgramOp& op : p.ops()) {
    if (op.seconds == 0) continue;
    EXPECT_EQ(op.seconds, 0.5);
    EXPECT_STREQ(op.name, "expand");
    EXPECT_EQ(p.calls()[op.call].block, 1u);
    ++known;
  }
  EXPECT_EQ(known, 4) << "forward and again, of two micro-batches";
}

TEST(Program, ASchedulesRecomputesTheFirstBlocksThatCanBe) {
  Trace trace;
  trace.blocks = 6;
  trace.recomputable = {1, 3, 4};
  using Blocks = std::vector<bool>;
  EXPECT_EQ(make_schedule(trace, 3, 0).recompute, Blocks(6, false));
  EXPECT_EQ(make_schedule(trace, 3, 2).recompute, (Blocks{false, true, false, true, false, false}));
  EXPECT_EQ(make_schedule(trace, 3, UINT32_MAX).recompute,
            (Blocks{false, true, false, true, true, false}));
  EXPECT_EQ(make_schedule(trace, 3, 0).micro_batches, 3u);
}

TEST(Program, MicroBatchesInEitherOrderMeetEachBlockAscending) {
  toy::Model model({2, 24, 90, 2, DType::f32});
  const ChunkLayout layout = ChunkLayout::build(model.params(), {2048, 1});
  const Trace trace = model.trace(true);
  for (const MicroBatchOrder order : {MicroBatchOrder::horizontal, MicroBatchOrder::vertical}) {
    const Program p = Program::lower(trace, layout, make_schedule(trace, 3, 0, order));
    std::map<std::pair<CallKind, uint32_t>, std::vector<uint32_t>> micro;
    uint32_t block_changes = 0;
    for (size_t i = 0; i < p.calls().size(); ++i) {
      const BlockCall& c = p.calls()[i];
      micro[{c.kind, c.block}].push_back(c.micro_batch);
      block_changes += i > 0 && c.block != p.calls()[i - 1].block;
    }
    for (const auto& [call, batches] : micro) {
      EXPECT_EQ(batches, (std::vector<uint32_t>{0, 1, 2})) << call.second;
    }
    if (order == MicroBatchOrder::horizontal) {
      EXPECT_GT(block_changes, 3 * (trace.blocks - 1));
    } else {
      EXPECT_LE(block_changes, 2 * trace.blocks) << "all micro-batches of a block, then the next";
    }
  }
}

TEST(Program, RecomputedValuesDoNotLiveUntilBackward) {
  const Chain chain(6);
  const Program kept = Program::lower(chain.trace, chain.layout(), {1, {}});
  const Program again = Program::lower(chain.trace, chain.layout(), {1, chain.all()});
  EXPECT_GE(kept.non_model_bytes(), 6 * kLarge);
  EXPECT_LT(again.non_model_bytes(), 2 * kLarge + kScratch + 10 * kSmall);
  EXPECT_LE(kept.value_peak_bytes(), kept.non_model_bytes());
  EXPECT_GE(kept.value_peak_bytes(), 6 * kLarge + 7 * kSmall);  // at the loss: every h and x
}

TEST(Program, MicroBatchesReuseMemoryButKeepWhatTheTailReads) {
  const Chain chain(4);
  const Program one = Program::lower(chain.trace, chain.layout(), {1, {}});
  const Program three = Program::lower(chain.trace, chain.layout(), {3, {}});
  // Gradient staging of one tensor and two more inputs of the tail, not three times the values.
  EXPECT_LE(three.non_model_bytes(), one.non_model_bytes() + 2048 * 4 + 2 * kSmall);
  std::set<uint64_t> offsets;
  for (const ProgramOp& op : three.ops()) {
    if (std::string(op.name) == "lookup_grad") offsets.insert(op.values.front().offset);
  }
  EXPECT_EQ(offsets.size(), 3u);
}

TEST(Program, NoValueIsOverwrittenWhileItLives) {
  for (const uint32_t accum : {1u, 3u}) {
    for (const bool recompute : {false, true}) {
      const Schedule schedule{accum, std::vector<bool>(recompute ? 20 : 0, true)};
      const Chain chain(4, DType::bf16);
      expect_values_survive(chain.trace, chain.layout(),
                            Program::lower(chain.trace, chain.layout(), schedule));
      toy::Model model({3, 24, 40, 6, DType::bf16});
      const Trace trace = model.trace(true);
      const ChunkLayout layout = ChunkLayout::build(model.params(), {2048, 1});
      expect_values_survive(trace, layout, Program::lower(trace, layout, schedule));
    }
  }
}

TEST(Program, RefusesAValueReadBeforeItIsMade) {
  const Chain chain(1);
  Tracer t(2, {{"late", 64}, {"other", 64}});
  t.begin(CallKind::forward, 0);
  t.op({"reader"}, {}, {0}, {1}, kNothing);
  t.begin(CallKind::forward, 1);
  t.op({"maker"}, {}, {}, {0}, kNothing);
  try {
    Program::lower(t.take(), chain.layout(), {1, {}});
    FAIL() << "nothing was thrown";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("reader"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("late"), std::string::npos);
  }
}

TEST(Program, RefusesAGradientOfAFrozenTensor) {
  Chain chain(1);
  chain.params[1].trainable = false;
  try {
    Program::lower(chain.trace, chain.layout(), {1, {}});
    FAIL() << "nothing was thrown";
  } catch (const StateError& e) {
    EXPECT_NE(std::string(e.what()).find("op w_grad makes a gradient of w1"), std::string::npos)
        << e.what();
  }
}

TEST(Program, TracerRefusesAliasesAndRepeatedCalls) {
  Tracer t(1, {{"a", 64}, {"b", 64}});
  EXPECT_THROW(t.op({"early"}, {}, {}, {0}, kNothing), StateError);
  t.begin(CallKind::forward, 0);
  EXPECT_THROW(t.op({"inplace"}, {}, {0, 1}, {1}, kNothing), StateError);
  EXPECT_THROW(t.op({"unknown"}, {}, {2}, {}, kNothing), StateError);
  EXPECT_THROW(t.op({"unknown"}, {}, {}, {7}, kNothing), StateError);
  EXPECT_THROW(t.begin(CallKind::forward, 0), StateError);
  EXPECT_THROW(t.begin(CallKind::reforward, 0), StateError);
}

}  // namespace
}  // namespace strata
