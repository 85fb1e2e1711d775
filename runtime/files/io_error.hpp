// Errors of reads and writes that say what, where, why and what to try.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/errors.hpp"

namespace strata {

/// "cannot write 4096 bytes at offset 8192 of FILE: No space left on device; free space ...".
/// `error` is an errno; 0 stands for a file that ended too soon.
IoError io_error(const char* verb, uint64_t bytes, uint64_t offset, const std::string& file,
                 int error);
/// "cannot VERB FILE: ...", for calls that have no place in the file.
IoError io_error(const char* verb, const std::string& file, int error);

/// Whether the same call may succeed when it is made again.
bool may_retry(int error) noexcept;

}  // namespace strata
