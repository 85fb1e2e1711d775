#include "train/data_shards.hpp"

#include "tests/runtime/files/memory_files.hpp"
#include "tests/train/data_samples.hpp"
#include "tests/train/shard_files.hpp"

namespace strata {
namespace {

using Names = std::vector<std::string>;
using Tokens = std::vector<uint32_t>;

class Shards : public ::testing::Test {
 protected:
  /// Writes tokens as shards that end before `cuts` and at the end.
  Names write(const Tokens& tokens, size_t token_bytes, const std::vector<size_t>& cuts = {}) {
    Names names;
    auto from = tokens.begin();
    for (size_t i = 0; i <= cuts.size(); ++i) {
      const auto to = i < cuts.size() ? tokens.begin() + cuts[i] : tokens.end();
      names.push_back(std::to_string(token_bytes) + "_" + std::to_string(i) + ".bin");
      files_.put(names.back(), shard(Tokens(from, to), token_bytes));
      from = to;
    }
    return names;
  }
  ShardData open(const Names& names, uint32_t seq = 8, uint64_t vocabulary = 50257) {
    return ShardData(names, seq, 5, vocabulary, files_);
  }
  /// Why a file with these bytes is refused.
  std::string refused(const std::string& bytes, uint64_t vocabulary = 50257) {
    files_.put("x.bin", bytes);
    std::string message = error_of<ConfigError>([&] { open({"x.bin"}, 8, vocabulary); });
    EXPECT_CONTAINS(message, "'x.bin'");
    return message;
  }

  MemoryFiles files_;
};

void expect_window(const Tokens& all, uint64_t start, uint32_t seq, const int32_t* tokens,
                   const int32_t* targets) {
  for (uint64_t t = 0; t < seq; ++t) {
    ASSERT_EQ(tokens[t], static_cast<int64_t>(all[start + t]));
    ASSERT_EQ(targets[t], static_cast<int64_t>(all[start + t + 1]));
  }
}

TEST_F(Shards, BatchesAreWindowsOfTheStreamWithShiftedTargets) {
  for (const size_t token_bytes : {2, 4}) {
    const Tokens all = token_ramp(100'000, token_bytes == 2 ? 50257 : 128'256);
    ShardData data = open(write(all, token_bytes, {1, 30'000, 30'003, 95'005}), 8, 128'256);
    EXPECT_EQ(data.train_tokens(), 90'000u);
    EXPECT_EQ(data.validation_tokens(), 10'000u);
    std::vector<int32_t> tokens(8 * 50), targets(8 * 50);
    for (uint64_t batch = 0; batch < 100; ++batch) {
      data.train_batch(50 * batch, 50, tokens.data(), targets.data());
      for (uint64_t i = 0; i < 50; ++i) {
        const uint64_t start = data.sampler().train_start(50 * batch + i);
        expect_window(all, start, 8, &tokens[8 * i], &targets[8 * i]);
      }
    }
    // These windows are read one after the other, across the end of a shard.
    for (uint64_t w = 620; w < 630; ++w) {
      data.validation_batch(w, 1, tokens.data(), targets.data());
      expect_window(all, 90'000 + 8 * w, 8, tokens.data(), targets.data());
    }
  }
}

TEST_F(Shards, WindowsMaySpanManyShards) {
  const Tokens all = token_ramp(200, 1000);
  std::vector<size_t> cuts;
  for (size_t i = 1; i < 200; ++i) cuts.push_back(i);
  ShardData data = open(write(all, 2, cuts));
  std::vector<int32_t> tokens(8 * 40), targets(8 * 40);
  data.train_batch(0, 40, tokens.data(), targets.data());
  for (uint64_t i = 0; i < 40; ++i) {
    expect_window(all, data.sampler().train_start(i), 8, &tokens[8 * i], &targets[8 * i]);
  }
}

TEST_F(Shards, HashIsOfTheTokensAlone) {
  const Tokens all = token_ramp(500, 50257);
  Tokens other = all;
  other[499] ^= 1;
  const uint64_t hash = open(write(all, 2)).hash();
  EXPECT_EQ(open(write(all, 2, {100, 321})).hash(), hash);
  EXPECT_EQ(open(write(all, 4, {7}), 9, 60'000).hash(), hash);
  EXPECT_NE(open(write(other, 2)).hash(), hash);
}

TEST_F(Shards, HeadersThatAreWrongAreNamed) {
  const std::string good = shard(token_ramp(200, 1000), 2);
  EXPECT_CONTAINS(refused(""), "is empty");
  EXPECT_CONTAINS(refused(good.substr(0, 1)), "ends within the header");
  EXPECT_CONTAINS(refused(good.substr(0, 1023)), "it has 1023 of 1024 bytes");
  const std::string magic = refused(shard_header(20240521, 1, 200) + good.substr(1024));
  EXPECT_CONTAINS(magic, "magic number is 20240521");
  EXPECT_CONTAINS(magic, "20240520 (16-bit tokens) or 20240801 (32-bit tokens)");
  EXPECT_CONTAINS(refused(shard_header(20240520, 7, 200) + good.substr(1024)),
                  "is a token shard of version 7; with its magic number 20240520 version 1");
  EXPECT_CONTAINS(refused(shard_header(20240801, 1, 100) + good.substr(1024)),
                  "is a token shard of version 1; with its magic number 20240801 version 7");
  EXPECT_CONTAINS(refused(shard_header(20240520, 1, 0)), "has 0 tokens");
  EXPECT_CONTAINS(refused(shard_header(20240520, 1, 0) + "more"), "has 0 tokens");
  EXPECT_CONTAINS(refused(shard_header(20240520, 1, ~0u) + "more"), "has -1 tokens");
}

TEST_F(Shards, SizesThatAreWrongAreNamed) {
  const std::string good = shard(token_ramp(200, 1000), 2);
  for (const size_t bytes : {1024, 1025, 1423}) {
    const std::string message = refused(good.substr(0, bytes));
    EXPECT_CONTAINS(message, "has " + std::to_string(bytes) + " bytes but 200 tokens of 2 bytes");
    EXPECT_CONTAINS(message, "make 1424; it was cut short");
  }
  EXPECT_CONTAINS(refused(good + "x"), "has 1425 bytes");
  EXPECT_CONTAINS(refused(good + "x"), "make 1424; its header is wrong");
  EXPECT_CONTAINS(refused(shard_header(20240801, 7, 0x7fffffff) + good),
                  "2147483647 tokens of 4 bytes, as its header says, make 8589935612");
}

TEST_F(Shards, TokensOutsideTheVocabularyAreNamed) {
  for (const size_t token_bytes : {2, 4}) {
    for (const size_t at : {0, 31, 99'999}) {
      Tokens tokens = token_ramp(100'000, 1000);
      tokens[at] = 1000;
      files_.put("first.bin", shard(token_ramp(100, 1000), token_bytes));
      files_.put("bad.bin", shard(tokens, token_bytes));
      const std::string message = error_of<ConfigError>([&] {
        open({"first.bin", "bad.bin"}, 8, 1000);
      });
      EXPECT_CONTAINS(message, "token 1000 at position " + std::to_string(at) + " of 'bad.bin'");
      EXPECT_CONTAINS(message, "vocabulary of 1000");
      EXPECT_EQ(open({"first.bin", "bad.bin"}, 8, 1001).train_tokens(), 90'090u);
    }
  }
  Tokens tokens = token_ramp(200, 1000);
  tokens[5] = 0xffffffff;
  EXPECT_CONTAINS(refused(shard(tokens, 4), 1 << 24), "token 4294967295 at position 5");
}

TEST_F(Shards, KindsAreNotMixed) {
  Names names = write(token_ramp(200, 1000), 2, {100});
  names.push_back(write(token_ramp(200, 1000), 4)[0]);
  EXPECT_CONTAINS(error_of<ConfigError>([&] { open(names); }),
                  "'2_0.bin' has tokens of 16 bits but '4_0.bin' of 32");
}

TEST_F(Shards, TooFewTokensAreRefused) {
  EXPECT_CONTAINS(error_of<ConfigError>([&] { open(write(token_ramp(89, 1000), 2)); }),
                  "the data has 89 tokens");
  EXPECT_EQ(open(write(token_ramp(90, 1000), 2)).validation_tokens(), 9u);
}

}  // namespace
}  // namespace strata
