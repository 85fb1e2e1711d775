// Shards with anything in them: they load exactly when they are right, else they are refused.
#include <optional>
#include <random>

#include "tests/runtime/files/memory_files.hpp"
#include "tests/train/data_samples.hpp"
#include "tests/train/shard_files.hpp"
#include "train/data_shards.hpp"

namespace strata {
namespace {

constexpr uint32_t kSeq = 4;
constexpr uint32_t kVocabulary = 300;

class Fuzz {
 public:
  explicit Fuzz(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t n) { return random_() % n; }
  bool one_in(uint64_t n) { return below(n) == 0; }

  std::string bytes(size_t count) {
    std::string out(count, '\0');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  std::string good_shard(size_t token_bytes) {
    std::vector<uint32_t> tokens(1 + below(120));
    for (uint32_t& t : tokens) t = static_cast<uint32_t>(below(kVocabulary));
    return shard(tokens, token_bytes);
  }
  /// A number that is wrong in most places, or right in some.
  uint32_t number() {
    constexpr uint32_t kSome[] = {0, 1, 2, 7, 60, 20240520, 20240801, 0x7fffffff, 1u << 31, ~0u};
    return one_in(3) ? static_cast<uint32_t>(random_()) : kSome[below(std::size(kSome))];
  }
  void change(std::string& s) {
    if (s.empty()) return;
    const size_t at = below(s.size());
    switch (below(9)) {
      case 0: s.resize(at); return;
      case 1: s += bytes(1 + below(10)); return;
      case 2: s[at] = static_cast<char>(s[at] ^ (1 << below(8))); return;
      case 3: s[at % 12] = static_cast<char>(s[at % 12] ^ (1 << below(8))); return;
      case 4: s.replace(at / 4 * 4, 4, little_endian(number(), 4)); return;
      case 5: s.replace(std::min(s.size(), 4 * below(3)), 4, little_endian(number(), 4)); return;
      case 6: s.erase(at, 1 + below(20)); return;
      case 7: s.insert(at, s.substr(below(s.size()), 1 + below(20))); return;
      default: s = bytes(below(1200)); return;
    }
  }

 private:
  std::mt19937_64 random_;
};

uint64_t number_at(const std::string& s, size_t at, size_t bytes) {
  uint64_t n = 0;
  for (size_t i = bytes; i-- > 0;) n = n << 8 | static_cast<uint8_t>(s[at + i]);
  return n;
}

/// The tokens of right shards; nothing when one is wrong or there are too few.
std::optional<std::vector<int32_t>> tokens_of(const std::vector<std::string>& shards) {
  std::vector<int32_t> all;
  size_t kind = 0;
  for (const std::string& s : shards) {
    if (s.size() < 1024) return std::nullopt;
    const uint64_t head = number_at(s, 0, 8), count = number_at(s, 8, 4);
    const size_t bytes = head == (uint64_t{1} << 32 | 20240520)   ? 2
                         : head == (uint64_t{7} << 32 | 20240801) ? 4
                                                                  : 0;
    if (bytes == 0 || (kind != 0 && kind != bytes)) return std::nullopt;
    if (count == 0 || s.size() != 1024 + count * bytes) return std::nullopt;
    kind = bytes;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t token = number_at(s, 1024 + i * bytes, bytes);
      if (token >= kVocabulary) return std::nullopt;
      all.push_back(static_cast<int32_t>(token));
    }
  }
  if (all.size() < 10 * (kSeq + 1)) return std::nullopt;
  return all;
}

void expect_windows(ShardData& data, const std::vector<int32_t>& all, uint64_t round) {
  int32_t tokens[3 * kSeq], targets[3 * kSeq];
  data.train_batch(round, 2, tokens, targets);
  data.validation_batch(round, 1, tokens + 2 * kSeq, targets + 2 * kSeq);
  for (uint64_t w = 0; w < 3; ++w) {
    const uint64_t start =
        w < 2 ? data.sampler().train_start(round + w) : data.sampler().validation_start(round);
    for (uint64_t t = 0; t < kSeq; ++t) {
      ASSERT_EQ(tokens[w * kSeq + t], all[start + t]) << "round " << round;
      ASSERT_EQ(targets[w * kSeq + t], all[start + t + 1]) << "round " << round;
    }
  }
}

TEST(ShardFuzz, ShardsLoadExactlyWhenTheyAreRight) {
  Fuzz fuzz(20240520);
  uint64_t loaded = 0, refused = 0, noticed = 0;
  for (uint64_t round = 0; round < 100'000; ++round) {
    MemoryFiles files;
    std::vector<std::string> names, shards;
    const size_t token_bytes = fuzz.one_in(2) ? 2 : 4;
    const size_t count = 1 + fuzz.below(3);
    for (size_t i = 0; i < count; ++i) {
      names.push_back(std::to_string(i) + ".bin");
      shards.push_back(fuzz.good_shard(fuzz.one_in(30) ? 6 - token_bytes : token_bytes));
      if (fuzz.one_in(3)) fuzz.change(shards[i]);
      files.put(names[i], shards[i]);
    }
    auto expected = tokens_of(shards);
    if (fuzz.one_in(50)) {
      names.push_back("none.bin");
      expected.reset();
    }
    try {
      ShardData data(names, kSeq, 1, kVocabulary, files);
      ASSERT_TRUE(expected) << "round " << round;
      ++loaded;
      expect_windows(data, *expected, round);
      // The same tokens or an error, whatever becomes of the files.
      fuzz.change(shards[0]);
      files.put(names[0], shards[0]);
      expect_windows(data, *expected, round);
    } catch (const ConfigError&) {
      ASSERT_FALSE(expected) << "round " << round;
      ++refused;
    } catch (const IoError& e) {
      ASSERT_TRUE(expected) << "round " << round << ": " << e.what();
      ++noticed;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(loaded, 20'000u);
  EXPECT_GT(refused, 20'000u);
  EXPECT_GT(noticed, 5'000u);
}

}  // namespace
}  // namespace strata
