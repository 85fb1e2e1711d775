// Token shards for tests, written by other code than what reads them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// The last `bytes` bytes of a number, the lowest first.
inline std::string little_endian(uint64_t n, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(n >> 8 * i & 0xff));
  return out;
}

/// A header with these first numbers.
inline std::string shard_header(uint32_t magic, uint32_t version, uint32_t tokens) {
  std::string out = little_endian(magic, 4) + little_endian(version, 4) + little_endian(tokens, 4);
  out.resize(1024);
  return out;
}

/// A whole shard of tokens of 2 or 4 bytes.
inline std::string shard(const std::vector<uint32_t>& tokens, size_t token_bytes) {
  const auto count = static_cast<uint32_t>(tokens.size());
  std::string out =
      token_bytes == 2 ? shard_header(20240520, 1, count) : shard_header(20240801, 7, count);
  for (const uint32_t t : tokens) out += little_endian(t, token_bytes);
  return out;
}

/// `count` tokens below `vocabulary` whose neighbours identify the position.
inline std::vector<uint32_t> token_ramp(size_t count, uint32_t vocabulary) {
  std::vector<uint32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<uint32_t>((i * 40503 + i * i / 3) % vocabulary);
  }
  return tokens;
}

}  // namespace strata
