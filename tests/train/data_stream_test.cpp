#include "train/data_stream.hpp"

#include "tests/runtime/files/memory_files.hpp"
#include "tests/train/data_samples.hpp"

namespace strata {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kBlock = DataStream::kBlock;

std::string text_of(size_t bytes) {
  std::string text(bytes, ' ');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * i / 7 + i) % 26);
  return text;
}

/// All pieces of the scans of all files.
std::string scan_all(DataStream& stream) {
  std::string all;
  for (size_t i = 0; i < stream.parts().size(); ++i) {
    stream.scan(i, [&](std::span<const uint8_t> piece) {
      EXPECT_LE(piece.size(), kBlock);
      all.append(piece.begin(), piece.end());
    });
  }
  return all;
}

std::string read(DataStream& stream, uint64_t first, size_t count) {
  std::vector<uint8_t> out(count);
  stream.read(first, out);
  return {out.begin(), out.end()};
}

TEST(DataStream, ReadsAcrossFileBoundaries) {
  MemoryFiles files;
  const Names names = {"1", "2", "3", "4", "5"};
  for (const size_t header : {0, 2}) {
    const std::string skipped(header, '#');
    for (size_t i = 0; i < 5; ++i) {
      files.put(names[i], skipped + Names{"abc", "", "defg", "h", ""}[i]);
    }
    DataStream stream(files, names, "text", header);
    ASSERT_EQ(stream.bytes(), 8u);
    const std::string all = "abcdefgh";
    EXPECT_EQ(scan_all(stream), all);
    for (size_t first = 0; first <= 8; ++first) {
      for (size_t count = 0; first + count <= 8; ++count) {
        EXPECT_EQ(read(stream, first, count), all.substr(first, count));
      }
    }
    EXPECT_THROW(read(stream, 7, 2), StateError);
    EXPECT_THROW(read(stream, ~0ull, 2), StateError);
  }
}

TEST(DataStream, ReadsAcrossBlocks) {
  MemoryFiles files;
  const std::string one = text_of(2 * kBlock), two = text_of(3 * kBlock - 7);
  files.put("1", one);
  files.put("2", two);
  for (const size_t header : {size_t{0}, size_t{1024}, kBlock, kBlock + 5}) {
    DataStream stream(files, Names{"1", "2"}, "text", header);
    const std::string all = one.substr(header) + two.substr(header);
    EXPECT_EQ(scan_all(stream), all);
    EXPECT_EQ(read(stream, 0, all.size()), all);
    for (size_t i = 0; i < 200; ++i) {
      const size_t first = i * 7919 * 31 % (all.size() - 500);
      EXPECT_EQ(read(stream, first, 500), all.substr(first, 500));
    }
  }
}

TEST(DataStream, NoticesEveryChangeOfWhatItReads) {
  MemoryFiles files;
  const std::string text = text_of(3 * kBlock - 100);
  files.put("a", text);
  files.put("b", text);
  DataStream stream(files, Names{"a", "b"}, "training text");
  scan_all(stream);
  for (const size_t at : {size_t{0}, kBlock - 1, kBlock, 2 * kBlock + 9, text.size() - 1}) {
    std::string changed = text;
    changed[at] ^= 1;
    files.put("b", changed);
    const size_t block = at / kBlock * kBlock;
    const uint64_t first = text.size() + block;
    const auto message = error_of<IoError>([&] { read(stream, first + 1, 2); });
    EXPECT_CONTAINS(message, "bytes at offset " + std::to_string(block) + " of 'b' changed");
    EXPECT_CONTAINS(message, "do not change the training text");
    // The other blocks are as they were.
    EXPECT_EQ(read(stream, 0, text.size()), text);
    EXPECT_EQ(read(stream, first - 10, 10), (text + text).substr(first - 10, 10));
    files.put("b", text);
    EXPECT_EQ(read(stream, first + 1, 2), text.substr(block + 1, 2));
  }
  files.put("b", text + "more");
  EXPECT_EQ(read(stream, text.size(), text.size()), text) << "what is added does not matter";
}

TEST(DataStream, AFileThatShrinksIsAnError) {
  MemoryFiles files;
  files.put("b", "abc");
  DataStream stream(files, Names{"b"}, "training text");
  scan_all(stream);
  files.put("b", "a");
  EXPECT_CONTAINS(error_of<IoError>([&] { read(stream, 0, 3); }),
                  "'b' ends at byte 1 but had 3 bytes when it was opened; do not change the "
                  "training text");
}

TEST(DataStream, NothingIsReadBeforeTheScan) {
  MemoryFiles files;
  files.put("b", "abc");
  DataStream stream(files, Names{"b"}, "text");
  EXPECT_THROW(read(stream, 0, 1), StateError);
}

TEST(DataStream, WhatCannotBeOpenedIsNamed) {
  MemoryFiles files;
  files.put("a", "abc");
  EXPECT_CONTAINS(error_of<ConfigError>([&] {
                    DataStream(files, Names{"a", "none"}, "text");
                  }),
                  "--data: cannot open none: No such file");
  EXPECT_CONTAINS(error_of<ConfigError>([&] { DataStream(files, {}, "text"); }), "no files");
}

}  // namespace
}  // namespace strata
