#include "train/data_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

DataStream::Part open_part(Files& files, const std::string& path) {
  // Files that cannot be opened are a wrong `--data`, whatever the reason.
  try {
    auto file = files.open(path);
    const uint64_t size = bytes_of(*file);
    return {std::move(file), size, 0, {}};
  } catch (const IoError& e) {
    throw ConfigError(fmt::format("--data: {}", e.what()));
  }
}

}  // namespace

DataStream::DataStream(Files& files, std::span<const std::string> paths, std::string what,
                       size_t header)
    : what_(std::move(what)), header_(header) {
  if (paths.empty()) throw ConfigError("--data: no files given");
  parts_.reserve(paths.size());
  uint64_t longest = 0;
  for (const std::string& path : paths) {
    Part& part = parts_.emplace_back(open_part(files, path));
    part.first = bytes_;
    bytes_ += part.bytes - std::min<uint64_t>(part.bytes, header);
    longest = std::max(longest, part.bytes);
  }
  buffer_.resize(std::min<uint64_t>(kBlock, longest));
}

void DataStream::scan(size_t index, const std::function<void(std::span<const uint8_t>)>& use) {
  Part& part = parts_[index];
  part.hashes.clear();
  part.hashes.reserve((part.bytes + kBlock - 1) / kBlock);
  for (uint64_t offset = 0; offset < part.bytes; offset += kBlock) {
    const auto block = load(part, offset);
    part.hashes.push_back(hash_bytes(block.data(), block.size()));
    const uint64_t skipped = header_ - std::min<uint64_t>(header_, offset);
    if (skipped < block.size()) use(block.subspan(skipped));
  }
}

void DataStream::read(uint64_t first, std::span<uint8_t> out) {
  if (first > bytes_ || out.size() > bytes_ - first) {
    throw StateError(
        fmt::format("read of {} bytes at {} of a stream of {} bytes", out.size(), first, bytes_));
  }
  if (out.empty()) return;
  auto part = std::partition_point(parts_.begin(), parts_.end(),
                                   [first](const Part& p) { return p.first <= first; }) -
              1;
  uint64_t offset = header_ + (first - part->first);
  while (!out.empty()) {
    if (offset >= part->bytes) {
      ++part;
      offset = header_;
      continue;
    }
    const uint64_t start = offset / kBlock * kBlock;
    const auto block = load(*part, start);
    check(*part, start, block);
    auto piece = block.subspan(offset - start);
    piece = piece.first(std::min(piece.size(), out.size()));
    std::copy(piece.begin(), piece.end(), out.begin());
    out = out.subspan(piece.size());
    offset += piece.size();
  }
}

std::span<const uint8_t> DataStream::load(const Part& part, uint64_t offset) {
  const auto block = std::span(buffer_).first(std::min<uint64_t>(kBlock, part.bytes - offset));
  try {
    read_all(*part.file, std::as_writable_bytes(block), offset, what_);
  } catch (const IoError&) {
    const int64_t size = part.file->size();
    if (size < 0 || static_cast<uint64_t>(size) >= part.bytes) throw;
    throw IoError(
        fmt::format("'{}' ends at byte {} but had {} bytes when it was opened; do not change the "
                    "{} during a run",
                    part.file->name(), size, part.bytes, what_));
  }
  return block;
}

void DataStream::check(const Part& part, uint64_t offset, std::span<const uint8_t> block) const {
  if (part.hashes.empty()) {
    throw StateError(fmt::format("read of '{}' before its scan", part.file->name()));
  }
  if (hash_bytes(block.data(), block.size()) == part.hashes[offset / kBlock]) return;
  throw IoError(
      fmt::format("the {} bytes at offset {} of '{}' changed since the start, or were read wrongly "
                  "then or now; do not change the {} during a run, and look at the kernel's log",
                  block.size(), offset, part.file->name(), what_));
}

}  // namespace strata
