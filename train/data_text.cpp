#include "train/data_text.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "runtime/errors.hpp"
#include "runtime/hash.hpp"
#include "train/tokenizer.hpp"
#include "train/tokenizer_utf8.hpp"

namespace strata {
namespace {

/// Checks every file on its own (a character may not straddle two) and hashes all bytes.
uint64_t check_text(DataStream& text) {
  Hasher hash;
  for (size_t i = 0; i < text.parts().size(); ++i) {
    Utf8Validator utf8;
    const auto refuse = [&](std::optional<uint64_t> bad) {
      if (!bad) return;
      throw ConfigError(
          fmt::format("--data: '{}' is not UTF-8 text: invalid sequence at byte {}; convert it, "
                      "for example with iconv",
                      text.parts()[i].file->name(), *bad));
    };
    text.scan(i, [&](std::span<const uint8_t> piece) {
      refuse(utf8.feed(piece));
      hash.bytes(piece.data(), piece.size());
    });
    refuse(utf8.finish());
  }
  return hash.digest();
}

DataStream open_text(std::span<const std::string> paths, uint64_t model_vocabulary, Files& files) {
  ByteTokenizer::require_vocabulary(model_vocabulary);
  DataStream text(files, paths, "training text");
  if (text.bytes() == 0) {
    throw ConfigError(fmt::format("--data: the text is empty ('{}'{})",
                                  text.parts()[0].file->name(),
                                  text.parts().size() > 1 ? " and the others" : ""));
  }
  return text;
}

}  // namespace

TextData::TextData(std::span<const std::string> paths, uint32_t seq, uint64_t seed,
                   uint64_t model_vocabulary, Files& files)
    : TextData(open_text(paths, model_vocabulary, files), seq, seed) {}

TextData::TextData(DataStream text, uint32_t seq, uint64_t seed)
    : TokenSource(WindowSampler(text.bytes(), seq, seed)),
      text_(std::move(text)),
      window_(uint64_t{seq} + 1),
      hash_(check_text(text_)) {}

void TextData::read_window(uint64_t start, int32_t* tokens, int32_t* targets) {
  text_.read(start, window_);
  const std::span<const uint8_t> bytes = window_;
  ByteTokenizer::encode(bytes.first(seq()), tokens);
  ByteTokenizer::encode(bytes.subspan(1), targets);
}

}  // namespace strata
