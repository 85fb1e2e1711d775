#include "train/data_shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

constexpr const char* kWhat = "training tokens";

const ShardFormat& format_of(const DataStream::Part& part) {
  std::array<uint8_t, ShardFormat::kHeaderBytes> buffer;
  const auto header = std::span(buffer).first(std::min<uint64_t>(buffer.size(), part.bytes));
  read_all(*part.file, std::as_writable_bytes(header), 0, kWhat);
  return ShardFormat::of(header, part.bytes, part.file->name());
}

}  // namespace

ShardData::Opened ShardData::open(std::span<const std::string> paths, Files& files) {
  DataStream stream(files, paths, kWhat, ShardFormat::kHeaderBytes);
  const auto parts = stream.parts();
  const ShardFormat& format = format_of(parts[0]);
  for (const auto& part : parts.subspan(1)) {
    const ShardFormat& other = format_of(part);
    if (other.token_bytes == format.token_bytes) continue;
    throw ConfigError(fmt::format(
        "--data: '{}' has tokens of {} bits but '{}' of {}; give shards of one kind",
        parts[0].file->name(), 8 * format.token_bytes, part.file->name(), 8 * other.token_bytes));
  }
  return {std::move(stream), format};
}

ShardData::ShardData(std::span<const std::string> paths, uint32_t seq, uint64_t seed,
                     uint64_t model_vocabulary, Files& files)
    : ShardData(open(paths, files), seq, seed, model_vocabulary) {}

ShardData::ShardData(Opened shards, uint32_t seq, uint64_t seed, uint64_t model_vocabulary)
    : TokenSource(WindowSampler(shards.stream.bytes() / shards.format.token_bytes, seq, seed)),
      stream_(std::move(shards.stream)),
      format_(shards.format),
      window_((uint64_t{seq} + 1) * format_.token_bytes),
      hash_(check_tokens(model_vocabulary)) {}

uint64_t ShardData::check_tokens(uint64_t model_vocabulary) {
  Hasher hash;
  std::vector<int32_t> ids(DataStream::kBlock / format_.token_bytes);
  const auto lacks = [model_vocabulary](int32_t id) {
    return static_cast<uint32_t>(id) >= model_vocabulary;
  };
  for (size_t i = 0; i < stream_.parts().size(); ++i) {
    uint64_t position = 0;
    // Neither the header nor a block cuts a token in two.
    stream_.scan(i, [&](std::span<const uint8_t> piece) {
      const auto some = std::span(ids).first(piece.size() / format_.token_bytes);
      format_.decode(piece, some.data());
      const auto bad = std::find_if(some.begin(), some.end(), lacks);
      if (bad != some.end()) {
        throw ConfigError(fmt::format(
            "--data: token {} at position {} of '{}' is outside the model's vocabulary of {}; use "
            "a model with a larger vocabulary, or shards of another tokenizer",
            static_cast<uint32_t>(*bad), position + static_cast<uint64_t>(bad - some.begin()),
            stream_.parts()[i].file->name(), model_vocabulary));
      }
      hash.bytes(some.data(), some.size_bytes());
      position += some.size();
    });
  }
  return hash.digest();
}

void ShardData::read_window(uint64_t start, int32_t* tokens, int32_t* targets) {
  stream_.read(start * format_.token_bytes, window_);
  const std::span<const uint8_t> bytes = window_;
  format_.decode(bytes.first(bytes.size() - format_.token_bytes), tokens);
  format_.decode(bytes.subspan(format_.token_bytes), targets);
}

}  // namespace strata
