// Once it is open, the training data allocates nothing.
#include "tests/counted_allocations.hpp"
#include "tests/runtime/files/memory_files.hpp"
#include "tests/train/data_samples.hpp"
#include "tests/train/shard_files.hpp"
#include "train/data_shards.hpp"
#include "train/data_text.hpp"

namespace strata {
namespace {

TEST(DataSteadyState, BatchesAllocateNothing) {
  MemoryFiles files;
  const std::vector<std::string> texts = {"a.txt", "b.txt"}, shards = {"a.bin", "b.bin"};
  for (size_t i = 0; i < 2; ++i) {
    files.put(texts[i], std::string(100'000, 'x'));
    files.put(shards[i], shard(token_ramp(50'000, 1000), 2));
  }
  TextData text(texts, 64, 1, 256, files);
  ShardData tokens(shards, 64, 1, 1000, files);
  std::vector<int32_t> in(64 * 100), out(64 * 100);
  for (TokenSource* data : {static_cast<TokenSource*>(&text), static_cast<TokenSource*>(&tokens)}) {
    const uint64_t before = allocations;
    data->train_batch(0, 100, in.data(), out.data());
    data->validation_batch(0, 100, in.data(), out.data());
    EXPECT_EQ(allocations - before, 0u);
  }
}

}  // namespace
}  // namespace strata
