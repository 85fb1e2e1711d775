#include "train/data_shard_format.hpp"

#include <fmt/format.h>

#include "runtime/errors.hpp"

namespace strata {
namespace {

constexpr ShardFormat kShort{20240520, 1, 2};
constexpr ShardFormat kLong{20240801, 7, 4};

uint32_t number16(const uint8_t* p) noexcept { return uint32_t{p[0]} | uint32_t{p[1]} << 8; }
uint32_t number32(const uint8_t* p) noexcept { return number16(p) | number16(p + 2) << 16; }

}  // namespace

const ShardFormat& ShardFormat::of(std::span<const uint8_t> header, uint64_t file_bytes,
                                   const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("--data: '{}' {}", name, why));
  };
  if (file_bytes == 0) {
    refuse("is empty; a token shard (*.bin) starts with a header of 1024 bytes");
  }
  if (header.size() < kHeaderBytes) {
    refuse(fmt::format("ends within the header of a token shard (*.bin): it has {} of {} bytes",
                       file_bytes, kHeaderBytes));
  }
  const uint32_t magic = number32(&header[0]);
  const uint32_t version = number32(&header[4]);
  const auto tokens = static_cast<int32_t>(number32(&header[8]));
  if (magic != kShort.magic && magic != kLong.magic) {
    refuse(
        fmt::format("is not a token shard: its magic number is {} where {} (16-bit tokens) or "
                    "{} (32-bit tokens) is expected; files without a header are not read",
                    magic, kShort.magic, kLong.magic));
  }
  const ShardFormat& format = magic == kShort.magic ? kShort : kLong;
  if (version != format.version) {
    refuse(
        fmt::format("is a token shard of version {}; with its magic number {} version {} is "
                    "expected",
                    version, magic, format.version));
  }
  if (tokens <= 0) refuse(fmt::format("has {} tokens, its header says; leave it out", tokens));
  const uint64_t expected = kHeaderBytes + uint64_t{format.token_bytes} * tokens;
  if (file_bytes != expected) {
    refuse(fmt::format("has {} bytes but {} tokens of {} bytes, as its header says, make {}; {}",
                       file_bytes, tokens, format.token_bytes, expected,
                       file_bytes < expected ? "it was cut short: write or copy it again"
                                             : "its header is wrong: write it again"));
  }
  return format;
}

void ShardFormat::decode(std::span<const uint8_t> bytes, int32_t* ids) const noexcept {
  const size_t count = bytes.size() / token_bytes;
  if (token_bytes == 2) {
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(number16(&bytes[2 * i]));
  } else {
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(number32(&bytes[4 * i]));
  }
}

}  // namespace strata
