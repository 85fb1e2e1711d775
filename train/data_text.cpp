#include "train/data_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/errors.hpp"
#include "runtime/hash.hpp"
#include "train/tokenizer.hpp"
#include "train/tokenizer_utf8.hpp"

namespace strata {
namespace {

constexpr size_t kPiece = size_t{1} << 16;

/// Checks every file on its own (a character may not straddle two) and hashes all bytes.
uint64_t check_text(const ConcatenatedFiles& text) {
  Hasher hash;
  std::vector<uint8_t> buffer(kPiece);
  for (const auto& file : text.files()) {
    Utf8Validator utf8;
    std::optional<uint64_t> bad;
    for (uint64_t done = 0; done < file.bytes && !bad;) {
      const auto piece = std::span(buffer).first(std::min<uint64_t>(kPiece, file.bytes - done));
      text.read(file.first + done, piece);
      bad = utf8.feed(piece);
      hash.bytes(piece.data(), piece.size());
      done += piece.size();
    }
    if (!bad) bad = utf8.finish();
    if (bad) {
      throw ConfigError(
          fmt::format("--data: '{}' is not UTF-8 text: invalid sequence at byte {}; convert it, "
                      "for example with iconv",
                      file.path, *bad));
    }
  }
  return hash.digest();
}

ConcatenatedFiles open_text(std::span<const std::string> arguments, uint64_t model_vocabulary) {
  ByteTokenizer::require_vocabulary(model_vocabulary);
  ConcatenatedFiles text(resolve_data_files(arguments));
  if (text.bytes() == 0) {
    throw ConfigError(fmt::format("--data: the text is empty ('{}'{})", text.files()[0].path,
                                  text.files().size() > 1 ? " and the others" : ""));
  }
  return text;
}

}  // namespace

TextData::TextData(std::span<const std::string> arguments, uint32_t seq, uint64_t seed,
                   uint64_t model_vocabulary)
    : TextData(open_text(arguments, model_vocabulary), seq, seed) {}

TextData::TextData(ConcatenatedFiles text, uint32_t seq, uint64_t seed)
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
