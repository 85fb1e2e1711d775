// The token files of llm.c.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace strata {

/// A shard is 256 little-endian int32 (magic number, version, number of tokens, zeros), then the
/// tokens, little-endian too.
struct ShardFormat {
  uint32_t magic;
  uint32_t version;
  uint32_t token_bytes;

  static constexpr size_t kHeaderBytes = 1024;

  /// The format of a shard of `file_bytes` that starts with `header`, which is shorter than
  /// `kHeaderBytes` only where the file is. Throws ConfigError naming the file `name` unless the
  /// header is one of a format we know and tells the size of the file.
  static const ShardFormat& of(std::span<const uint8_t> header, uint64_t file_bytes,
                               const std::string& name);

  /// Token ids of `bytes`, a multiple of `token_bytes`. Ids beyond 2^31 come out negative.
  void decode(std::span<const uint8_t> bytes, int32_t* ids) const noexcept;
};

}  // namespace strata
