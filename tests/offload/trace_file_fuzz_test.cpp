// Whatever bytes come: a trace that is read can be laid out and lowered.
#include <gtest/gtest.h>

#include <random>

#include "offload/state_shape.hpp"
#include "offload/trace_file.hpp"
#include "runtime/errors.hpp"
#include "tests/mutate.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata {
namespace {

/// Whether the text was taken.
bool take(const std::string& text) {
  TraceFile file;
  try {
    file = read_trace(text, "here");
  } catch (const ConfigError& e) {
    EXPECT_EQ(std::string(e.what()).rfind("here:", 0), 0u) << e.what();
    return false;
  }
  EXPECT_EQ(read_trace(write_trace(file), "there"), file) << text;
  uint64_t elems = 0;
  for (const ParamSpec& p : file.params) elems += p.elems();
  const uint64_t chunk = ChunkLayout::kQuantum * (1 + elems / (ChunkLayout::kQuantum << 6));
  const auto layout = ChunkLayout::build(file.params, {chunk, 1});
  const std::vector<bool> all(file.trace.blocks, true);
  for (const Schedule& schedule : {Schedule{1, {}}, Schedule{2, all}}) {
    const Program program = Program::lower(file.trace, layout, schedule);
    EXPECT_GE(program.ops().size(), schedule.micro_batches) << text;
    try {
      const StateShape shape(layout, program, {});
      EXPECT_GT(shape.unit_bytes(), 0u) << text;
    } catch (const ConfigError&) {  // dtypes are mixed
    }
  }
  return true;
}

TEST(TraceFile, AnyBytesAreTakenOrRefused) {
  toy::Model model({1, 24, 40, 6, DType::bf16});
  const std::string good = write_trace({"toy", 6, model.params(), model.trace(true)});
  ASSERT_TRUE(take(good));
  std::mt19937_64 random(19);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < fuzz_runs(); ++i) taken += take(mutate(good, random));
  EXPECT_GT(taken, fuzz_runs() / 100) << "too few to say anything of what is taken";
  RecordProperty("taken", std::to_string(taken));
}

/// Only the numbers of a trace change, so that most lines stay well formed: what is wrong then is
/// what the numbers say of each other.
TEST(TraceFile, AnyNumbersAreTakenOrRefused) {
  toy::Model model({2, 24, 40, 6, DType::f32});
  const std::string good = write_trace({"toy", 6, model.params(), model.trace(true)});
  std::mt19937_64 random(20);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < fuzz_runs(); ++i) {
    std::string text = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      size_t at = random() % text.size();
      at = std::min(text.find_first_of("0123456789", at), text.find_last_of("0123456789"));
      const size_t begin = text.find_last_not_of("0123456789", at) + 1;
      const size_t end = text.find_first_not_of("0123456789", at);
      const uint64_t value = random() % 3 == 0 ? random() >> (random() % 64) : random() % 12;
      text.replace(begin, end - begin, std::to_string(value));
    }
    taken += take(text);
  }
  EXPECT_GT(taken, fuzz_runs() / 100) << "too few to say anything of what is taken";
  RecordProperty("taken", std::to_string(taken));
}

}  // namespace
}  // namespace strata
