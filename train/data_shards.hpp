// Files of tokens as a token source.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/data.hpp"
#include "train/data_shard_format.hpp"
#include "train/data_stream.hpp"

namespace strata {

/// Shards as llm.c writes them, in order, as one stream of tokens; windows may span shards and are
/// read when asked for. The whole is read once at start, to check it and to hash it.
class ShardData : public TokenSource {
 public:
  /// `paths` as of `resolve_data_files`. Throws ConfigError when a file cannot be opened or is not
  /// a shard (see `ShardFormat::of`), when tokens of some shards are 16-bit and of others 32-bit,
  /// when the model's vocabulary lacks a token, and when there are too few for `seq`.
  ShardData(std::span<const std::string> paths, uint32_t seq, uint64_t seed,
            uint64_t model_vocabulary, Files& files = real_files());

  /// Of the token ids, not of how they are stored or cut into files.
  uint64_t hash() const noexcept override { return hash_; }

 private:
  struct Opened {
    DataStream stream;
    const ShardFormat& format;
  };
  static Opened open(std::span<const std::string> paths, Files& files);
  ShardData(Opened shards, uint32_t seq, uint64_t seed, uint64_t model_vocabulary);
  /// Reads everything; gives the hash.
  uint64_t check_tokens(uint64_t model_vocabulary);
  void read_window(uint64_t start, int32_t* tokens, int32_t* targets) override;

  DataStream stream_;
  const ShardFormat& format_;
  std::vector<uint8_t> window_;
  uint64_t hash_;
};

}  // namespace strata
