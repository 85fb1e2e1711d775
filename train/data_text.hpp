// UTF-8 text files as a token source.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/data.hpp"
#include "train/data_stream.hpp"

namespace strata {

/// UTF-8 text through the byte tokenizer. Windows are read when asked for, so the text takes no
/// memory; the whole of it is read once at start, to check it and to hash it.
class TextData : public TokenSource {
 public:
  /// `paths` as of `resolve_data_files`. Throws ConfigError when a file cannot be opened or is not
  /// UTF-8 (names file and byte offset), when the text is empty or too short for `seq`, and when
  /// the model's vocabulary is too small.
  TextData(std::span<const std::string> paths, uint32_t seq, uint64_t seed,
           uint64_t model_vocabulary, Files& files = real_files());

  /// Of the bytes of the text, not of file names or boundaries.
  uint64_t hash() const noexcept override { return hash_; }

 private:
  TextData(DataStream text, uint32_t seq, uint64_t seed);
  void read_window(uint64_t start, int32_t* tokens, int32_t* targets) override;

  DataStream text_;
  std::vector<uint8_t> window_;
  uint64_t hash_;
};

}  // namespace strata
