#include "offload/trace_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "runtime/errors.hpp"
#include "tests/offload/same_program.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata {
namespace {

/// The example of docs/trace-format.md, as it stands there.
const std::string& example() {
  static const std::string text = [] {
    const auto root = std::filesystem::path(__FILE__).parent_path() / "../..";
    std::ostringstream all;
    all << std::ifstream(root / "docs/trace-format.md").rdbuf();
    const std::string page = all.str(), fence = "```json\n";
    const size_t begin = page.find(fence) + fence.size();
    return page.substr(begin, page.find("```", begin) - begin);
  }();
  return text;
}

/// The example with a part of one line replaced; lines count from 1.
std::string changed(size_t line, const std::string& from, const std::string& to) {
  std::string text = example();
  size_t at = 0;
  for (size_t l = 1; l < line; ++l) at = text.find('\n', at) + 1;
  const size_t found = text.find(from, at);
  EXPECT_LT(found, text.find('\n', at)) << "no " << from << " in line " << line;
  return text.replace(found, from.size(), to);
}

void expect_refused(const std::string& text, size_t line, const std::string& why) {
  try {
    read_trace(text, "here");
    ADD_FAILURE() << "taken: " << why;
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.rfind("here:" + std::to_string(line) + ": ", 0), 0u) << message;
    EXPECT_NE(message.find(why), std::string::npos) << "no '" << why << "' in: " << message;
  }
}

void expect_refused(size_t line, const std::string& from, const std::string& to,
                    const std::string& why) {
  expect_refused(changed(line, from, to), line, why);
}

TraceFile toy_trace(DType dtype = DType::f32) {
  toy::Model model({3, 24, 40, 6, dtype});
  return {"toy", 6, model.params(), model.trace(true)};
}

TEST(TraceFile, ReadsTheExampleOfTheDocs) {
  const TraceFile f = read_trace(example(), "here");
  EXPECT_EQ(f.model, "one layer and a tied head");
  EXPECT_EQ(f.tokens, 8u);
  EXPECT_EQ(f.trace.blocks, 2u);
  EXPECT_EQ(f.trace.recomputable, std::vector<uint32_t>{1});
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.params[2], (ParamSpec{"head", {32, 64}, DType::f32, 0, true, true, 0}));
  ASSERT_EQ(f.trace.values.size(), 5u);
  EXPECT_EQ(f.trace.values[0], (ValueSpec{"tokens", 32}));
  ASSERT_EQ(f.trace.segments.size(), 4u);
  EXPECT_EQ(f.trace.segments[0].ops.size(), 2u);
  const TraceOp loss{"loss", 98304, 20512, 1024, {reads(2), grad_of(2)}, {0, 2}, {3}};
  EXPECT_EQ(f.trace.find(CallKind::backward, 1)->ops[0], loss);
  const TraceOp tail{"lookup backward", 0, 4128, 0, {adds_to_grad_of(0)}, {0, 4}, {}};
  EXPECT_EQ(f.trace.find(CallKind::tail, 0)->ops, std::vector<TraceOp>{tail});
  EXPECT_EQ(f.trace.find(CallKind::forward, 0)->ops[0].seconds, 0);
  EXPECT_EQ(f.trace.find(CallKind::forward, 1)->ops[0].seconds, 1.2e-5);
  EXPECT_EQ(write_trace(f), example());
}

TEST(TraceFile, TheToyModelComesBackAndLowersToTheSame) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TraceFile file = toy_trace(dtype);
    const TraceFile back = read_trace(write_trace(file), "here");
    EXPECT_EQ(back, file);
    const auto layout = ChunkLayout::build(file.params, {2048, 1});
    const auto again = ChunkLayout::build(back.params, {2048, 1});
    for (const uint32_t micro_batches : {1u, 3u}) {
      for (const bool recompute : {false, true}) {
        const Schedule schedule{micro_batches, std::vector<bool>(file.trace.blocks, recompute)};
        expect_same_program(Program::lower(file.trace, layout, schedule),
                            Program::lower(back.trace, again, schedule));
      }
    }
  }
}

TEST(TraceFile, EveryFieldComesBack) {
  TraceFile file;
  file.model = "\"quoted\", \u00e4 and \\";
  file.tokens = 77;
  file.params = {{"scalar", {}, DType::bf16, 1023, false, false, {}},
                 {"largest", {int64_t{1} << 24, 1 << 24}, DType::bf16, 0, true, true, {}},
                 {"tied", {}, DType::bf16, 1023, false, true, 0}};
  file.trace.blocks = 9;
  file.trace.recomputable = {0, 3, 8};
  file.trace.values = {{"none", 0}, {"large", uint64_t{1} << 50}};
  TraceOp op{"op", uint64_t{1} << 60, uint64_t{1} << 50, uint64_t{1} << 50, {}, {}, {1, 0}};
  op.uses = {reads(1), reads(0)};
  op.seconds = 0.1 + 0.2;
  file.trace.segments = {
      {CallKind::forward, 8, {op}},
      {CallKind::backward, 8, {{"b", 0, 0, 0, {grad_of(1), reads(2)}, {0}, {}}}}};
  EXPECT_EQ(read_trace(write_trace(file), "here"), file);
}

TEST(TraceFile, CallsWithoutOpsAreLeftOut) {
  TraceFile file = toy_trace();
  const std::string text = write_trace(file);
  file.trace.segments.push_back({CallKind::tail, 1, {}});
  EXPECT_EQ(write_trace(file), text);
}

TEST(TraceFile, WritesNothingItWouldNotRead) {
  const auto refused = [](auto change) {
    TraceFile file = toy_trace();
    change(file);
    EXPECT_THROW(write_trace(file), ConfigError);
  };
  refused([](TraceFile& f) { f.params[0].name = "\xff"; });
  refused([](TraceFile& f) { f.params[0].shape[0] = 0; });
  refused([](TraceFile& f) { f.params[0].shape[0] = -4; });
  refused([](TraceFile& f) { f.trace.segments[0].ops[0].seconds = -1; });
  refused([](TraceFile& f) { f.trace.segments[0].ops[0].seconds = NAN; });
  refused([](TraceFile& f) { std::swap(f.trace.segments[0], f.trace.segments[1]); });
  refused([](TraceFile& f) {
    f.trace.segments[0].ops[0].uses = {{0, Plane::weight, Access::write}};
  });
}

// ---- refusals

TEST(TraceFile, TheHeaderIsChecked) {
  expect_refused("", 1, "the file is empty");
  expect_refused(1, "\"strata_trace\":1,", "", "is no trace: its first line has no");
  expect_refused(1, "trace\":1", "trace\":2", "is a trace of version 2, and this program reads");
  expect_refused(1, "\"tokens\":8,", "", "has no 'tokens'");
  expect_refused(1, "\"tokens\":8", "\"tokens\":0", "'tokens' is 0");
  expect_refused(1, "\"blocks\":2", "\"blocks\":0", "'blocks' is 0");
  expect_refused(1, "\"blocks\":2", "\"blocks\":16385", "'blocks' is no whole number from 0 to 16");
  expect_refused(1, "\"tensors\":3", "\"tensors\":0", "'tensors' is 0");
  expect_refused(1, "\"ops\":6", "\"ops\":0", "'ops' is 0");
  expect_refused(1, "\"ops\":6", "\"ops\":16777217", "'ops' is no whole number");
  expect_refused(1, "\"ops\":6", "\"ops\":6,\"ranks\":1", "unknown key 'ranks'");
  expect_refused(1, "[1]", "[2]", "'recomputable' has block 2, but blocks are 0 to 1");
  expect_refused(1, "[1]", "[1,0]", "'recomputable' has block 0 after 1; list each once");
  expect_refused(1, "[1]", "[1,1]", "'recomputable' has block 1 after 1; list each once");
  expect_refused(1, "[1]", "1", "'recomputable' is no list");
}

TEST(TraceFile, LinesAreCounted) {
  const std::string& good = example();
  const std::string cut = good.substr(0, good.rfind('\n', good.size() - 2) + 1);
  expect_refused(cut, 14, "the file ends where op 5 of 6 should come");
  expect_refused(good + "{}\n", 16, "a line comes after op 5");
  expect_refused(good + "\n", 16, "a line comes after op 5");
  EXPECT_NO_THROW(read_trace(good.substr(0, good.size() - 1), "here"));
  expect_refused(changed(1, "\"tensors\":3", "\"tensors\":4"), 5,
                 "is no tensor, but tensor 3 of 4");
  expect_refused(changed(1, "\"tensors\":3", "\"tensors\":2"), 4, "is no value, but value 0 of 5");
  expect_refused(7, "\"value\":2", "\"value\":3", "'value' is not 2");
  expect_refused(7, "{", "[{", "is not JSON at byte");
  expect_refused(7, "}", "}{", "is not JSON at byte");
  expect_refused(7, "{", "\n{", "is not JSON at byte");
}

TEST(TraceFile, TensorsAreChecked) {
  expect_refused(3, "\"name\":\"w\",", "", "has no 'name'");
  expect_refused(3, "\"w\"", "\"\"", "'name' is empty");
  expect_refused(3, "[64,64]", "[64,0]", "'shape' has a size of 0");
  expect_refused(3, "[64,64]", "[64,-1]", "'shape' holds something else than whole numbers");
  expect_refused(3, "[64,64]", "[64,6.5]", "'shape' holds something else");
  expect_refused(3, "[64,64]", "64", "'shape' is no list");
  expect_refused(3, "[64,64]", "[16777216,16777217]", "at most 281474976710656 elements");
  expect_refused(3, "[64,64]", "[4294967296,4294967296]", "at most 281474976710656 elements");
  expect_refused(3, "[64,64]", "[281474976710656]", "more than 1125899906842624 bytes of tensors");
  expect_refused(3, "fp32", "fp16", "'dtype' is fp16; write fp32, or bf16");
  expect_refused(3, "\"fp32\"", "\"fp32\",\"group\":1024", "'group' is no whole number from 0 to");
  expect_refused(3, "\"fp32\"", "\"fp32\",\"decay\":0", "'decay' is neither true nor false");
  expect_refused(3, "\"fp32\"", "\"fp32\",\"offset\":0", "unknown key 'offset'");
}

TEST(TraceFile, TiesAreChecked) {
  expect_refused(4, "\"tied_to\":0", "\"tied_to\":2", "'tied_to' is not an earlier tensor");
  expect_refused(4, "\"tied_to\":0", "\"tied_to\":-1", "'tied_to' is no whole number");
  expect_refused(4, "\"tied_to\":0", "\"tied_to\":4294967296", "'tied_to' is not an earlier");
  expect_refused(4, "\"tied_to\":0", "\"tied_to\":1", "is tied to tensor 1 (w), which has another");
  expect_refused(4, "[32,64]", "[64,32]", "is tied to tensor 0 (emb), which has another shape");
  expect_refused(4, "fp32", "bf16", "which has another shape, dtype");
  expect_refused(4, "\"tied", "\"group\":1,\"tied", "which has another");
  expect_refused(4, "\"tied", "\"trainable\":false,\"tied", "which has another");
  std::string tied_twice =
      changed(3, "[64,64],\"dtype\":\"fp32\"", "[32,64],\"dtype\":\"fp32\",\"tied_to\":0");
  tied_twice.replace(tied_twice.find("\"tied_to\":0}\n{\"value\""), 11, "\"tied_to\":1");
  expect_refused(tied_twice, 4, "that has storage of its own");
}

TEST(TraceFile, ValuesAreChecked) {
  expect_refused(6, ",\"bytes\":2048", "", "has no 'bytes'");
  expect_refused(6, "2048", "-2048", "'bytes' is no whole number");
  expect_refused(6, "2048", "1125899906842625", "'bytes' is no whole number");
  expect_refused(6, "2048", "1125899906842624", "more than 1125899906842624 bytes of values");
  expect_refused(6, "\"name\"", "\"made_at\":1,\"name\"", "unknown key 'made_at'");
}

TEST(TraceFile, NumbersOfOpsAreChecked) {
  expect_refused(12, "65536", "-1", "'flops' is no whole number");
  expect_refused(12, "65536", "1e9", "'flops' is no whole number");
  expect_refused(12, "65536", "1e999", "a number that is out of range");
  expect_refused(12, "65536", "NaN", "is not JSON at byte");
  expect_refused(12, "65536", "1152921504606846977", "'flops' is no whole number");
  expect_refused(changed(12, "65536", "1152921504606846976"), 13, "FLOPs in all");
  expect_refused(12, "20480", "1125899906842624", "bytes read and written in all");
  expect_refused(13, "1024", "1125899906842625", "'workspace' is no whole number");
  expect_refused(12, "1.2e-05", "0", "'seconds' is not above 0");
  expect_refused(12, "1.2e-05", "-0.5", "'seconds' is not above 0");
  expect_refused(12, "1.2e-05", "1000001", "'seconds' is not above 0");
  expect_refused(12, "1.2e-05", "\"fast\"", "'seconds' is no number");
  expect_refused(12, "\"layer\"", "\"layer\",\"chunk\":3", "unknown key 'chunk'");
}

TEST(TraceFile, OpsComeAsTheyRun) {
  expect_refused(11, "forward", "foward", "'kind' is foward; write forward, backward or tail");
  expect_refused(11, "forward", "reforward", "'kind' is reforward");
  expect_refused(11, "\"block\":0", "\"block\":2", "'block' is 2, but blocks are 0 to 1");
  expect_refused(10, "forward", "backward", "is a backward op before any forward op");
  expect_refused(changed(10, "\"block\":0", "\"block\":1"), 11,
                 "is an op of forward 0 after one of forward 1");
  expect_refused(changed(13, "\"block\":1", "\"block\":0"), 14,
                 "is an op of backward 1 after one of backward 0");
  expect_refused(14, "backward", "forward", "is an op of forward 1 after one of backward 1");
  expect_refused(changed(13, "backward", "tail"), 14, "is an op of backward 1 after one of tail 1");
}

TEST(TraceFile, UsesAreChecked) {
  expect_refused(12, "[[1,", "[[3,", "'uses' has tensor 3, but tensors are 0 to 2");
  expect_refused(12, "[[1,", "[[-1,", "'uses' holds something else than lists");
  expect_refused(12, "[[1,\"read\"]]", "[1]", "'uses' holds something else than lists");
  expect_refused(12, "[[1,\"read\"]]", "[[1,\"read\",2]]",
                 "'uses' holds something else than lists");
  expect_refused(12, "[[1,\"read\"]]", "[[1,[\"read\"]]]", "lists of lists of lists");
  expect_refused(12, "[[1,\"read\"]]", "{\"1\":\"read\"}", "holds an object");
  expect_refused(12, "read", "load", "'uses' has the word load; write read, write or accumulate");
  expect_refused(12, "read", "write", "makes a gradient of tensor 1 (w) in forward");
  expect_refused(12, "[[1,\"read\"]]", "[[1,\"read\"],[1,\"read\"]]",
                 "uses the weight of tensor 1 (w), or of one tied to it, twice");
  expect_refused(13, "[2,\"write\"]", "[2,\"write\"],[0,\"accumulate\"]",
                 "uses the grad of tensor 0 (emb), or of one tied to it, twice");
  expect_refused(changed(3, "}", ",\"trainable\":false}"), 14,
                 "makes a gradient of tensor 1 (w), which is frozen");
}

TEST(TraceFile, ValuesOfOpsAreChecked) {
  expect_refused(12, "\"in\":[1]", "\"in\":[5]", "names value 5, but there are 5");
  expect_refused(12, "\"in\":[1]", "\"in\":[4294967297]", "names value 4294967297");
  expect_refused(12, "\"in\":[1]", "\"in\":[1.0]", "'in' holds something else than whole numbers");
  expect_refused(12, "\"in\":[1]", "\"in\":1", "'in' is no list");
  expect_refused(12, "\"in\":[1]", "\"in\":[4]", "reads value 4 (dx) before any op makes it");
  expect_refused(12, "\"in\":[1]", "\"in\":[2]", "reads value 2 (y) before any op makes it");
  expect_refused(12, "\"in\":[1]", "\"in\":[1,1]", "has value 1 (x) twice in 'in'");
  expect_refused(12, "\"out\":[2]", "\"out\":[1]", "has value 1 (x) as input and output");
  expect_refused(12, "\"out\":[2]", "\"out\":[0]", "makes value 0 (tokens) again");
  expect_refused(12, "\"out\":[2]", "\"out\":[2,2]", "makes value 2 (y) again");
  expect_refused(12, "\"out\":[2]", "\"out\":[5]", "names value 5, but there are 5");
}

}  // namespace
}  // namespace strata
