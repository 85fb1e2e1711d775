// fio as the yardstick of `strata bench nvme`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

/// What is transferred.
enum class TransferMix : uint8_t { read, write, mixed };
constexpr size_t kTransferMixes = 3;
const char* name_of(TransferMix) noexcept;

struct FioJob {
  std::string file;
  uint64_t file_bytes = 0, block_bytes = 0;
  uint32_t depth = 0;
  double seconds = 0;
  TransferMix mix = TransferMix::read;
  /// Memory in huge pages at 2 MiB boundaries, of zeros, as our own transfers have it; else as fio
  /// comes.
  bool huge_pages = true;
  /// Of a mixed job, the percentage of transfers that read.
  uint32_t read_percent = 50;
};

/// The shell command of a job.
std::string fio_command(const FioJob&);

/// Bytes a second, read and written together, from fio's JSON. Throws IoError when it cannot be
/// read or reports an error.
double parse_fio(std::string_view json);

/// Runs a job. Throws IoError.
double run_fio(const FioJob&);

/// Whether there is an fio to run.
bool has_fio();

}  // namespace strata
