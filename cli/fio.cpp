#include "cli/fio.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/errors.hpp"

namespace strata {
namespace {

struct Pipe {
  std::string text;
  int status = -1;
};

Pipe run_shell(const std::string& command) {
  Pipe out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> part{};
  for (size_t n; (n = std::fread(part.data(), 1, part.size(), pipe)) != 0;) {
    out.text.append(part.data(), n);
  }
  out.status = ::pclose(pipe);
  return out;
}

}  // namespace

const char* name_of(TransferMix m) noexcept {
  constexpr const char* kNames[] = {"read", "write", "mixed"};
  return kNames[static_cast<size_t>(m)];
}

std::string fio_command(const FioJob& j) {
  constexpr const char* kModes[] = {"read", "write", "rw"};
  std::string command = fmt::format(
      "fio --name=strata --filename={} --size={} --bs={} --iodepth={} --rw={} --direct=1 "
      "--ioengine=io_uring --time_based --runtime={:.0f}ms --output-format=json",
      j.file, j.file_bytes, j.block_bytes, j.depth, kModes[static_cast<size_t>(j.mix)],
      j.seconds * 1e3);
  if (j.mix == TransferMix::mixed && j.read_percent != 50) {
    command += fmt::format(" --rwmixread={}", j.read_percent);
  }
  if (!j.huge_pages) return command + " 2>/dev/null";
  return "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 " + command +
         " --iomem_align=2m --zero_buffers 2>/dev/null";
}

double parse_fio(std::string_view json) {
  try {
    // Some versions print notes before the object.
    const size_t begin = json.find('{');
    const auto j = nlohmann::json::parse(json.substr(begin == std::string_view::npos ? 0 : begin));
    const auto& job = j.at("jobs").at(0);
    const int error = job.at("error").get<int>();
    if (error != 0) throw IoError(fmt::format("fio failed with error {}", error));
    return job.at("read").at("bw_bytes").get<double>() +
           job.at("write").at("bw_bytes").get<double>();
  } catch (const nlohmann::json::exception& e) {
    throw IoError(fmt::format("fio's answer cannot be read: {}", e.what()));
  }
}

double run_fio(const FioJob& j) {
  const Pipe p = run_shell(fio_command(j));
  if (p.status != 0) {
    throw IoError(fmt::format("'{}' failed; run it by hand to see why", fio_command(j)));
  }
  return parse_fio(p.text);
}

bool has_fio() { return run_shell("fio --version 2>/dev/null").status == 0; }

}  // namespace strata
