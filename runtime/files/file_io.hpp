// Whole transfers: short ones go on, interrupted ones are tried again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/files/files.hpp"

namespace strata {

/// Reads `to.size()` bytes from `offset` on. Throws IoError naming file, offset and `owner` (whose
/// bytes these are, for the message), also when the file ends before.
void read_all(File&, std::span<std::byte> to, uint64_t offset, std::string_view owner);
/// Writes all of `from` at `offset`. Throws IoError naming file, offset and owner.
void write_all(File&, std::span<const std::byte> from, uint64_t offset, std::string_view owner);
/// Bytes of a file. Throws IoError.
uint64_t bytes_of(File&);
/// Throws IoError.
void sync_all(File&);

/// All of a small file as text. Throws IoError, also when it is longer than `most` bytes.
std::string read_text(Files&, const std::string& path, uint64_t most = 64 << 20);
/// Puts a file in the place of another, if there is one, so that after a crash at any instant
/// either the old or the new one is there, whole. Throws IoError; then the old one is.
void replace_text(Files&, const std::string& path, std::string_view text);

}  // namespace strata
