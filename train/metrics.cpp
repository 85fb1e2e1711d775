#include "train/metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/io_error.hpp"

namespace strata {
namespace {

/// A flat JSON object built in place; large enough for a step that no heap is needed.
class FlatObject {
 public:
  void add(const char* key, uint64_t value) { append(key, value); }

  void add(const char* key, double value) {
    if (std::isfinite(value)) {
      append(key, value);
    } else {
      append(key, "null");
    }
  }

  using Text = fmt::basic_memory_buffer<char, 2048>;
  const Text& line() {
    fmt::format_to(fmt::appender(text_), "}}\n");
    return text_;
  }

 private:
  template <class T>
  void append(const char* key, T value) {
    const char* before = text_.size() == 0 ? "{" : ",";
    fmt::format_to(fmt::appender(text_), "{}\"{}\":{}", before, key, value);
  }

  Text text_;
};

/// Of an earlier run's file, only the lines of steps 1 to `steps`.
void keep_lines(const std::string& path, uint64_t steps) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return;
  std::string kept;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto j = nlohmann::json::parse(line, nullptr, false);
    if (!j.is_object() || !j.contains("step") || !j["step"].is_number_unsigned()) continue;
    if (j["step"].get<uint64_t>() <= steps) kept += line + "\n";
  }
  in.close();
  replace_text(real_files(), path, kept);
}

}  // namespace

MetricsWriter::MetricsWriter(const std::string& path, uint64_t keep_steps) : path_(path) {
  if (keep_steps != 0) keep_lines(path, keep_steps);
  const int fresh = keep_steps != 0 ? 0 : O_TRUNC;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | fresh, 0666);
  if (descriptor_ < 0) {
    throw IoError(fmt::format("cannot write metrics to '{}': {}", path, std::strerror(errno)));
  }
}

MetricsWriter::~MetricsWriter() { ::close(descriptor_); }

void MetricsWriter::write(const StepMetrics& m) {
  FlatObject object;
  object.add("step", m.step);
  object.add("loss", m.loss);
  object.add("lr", m.lr);
  object.add("grad_norm", m.grad_norm);
  object.add("tokens", m.tokens);
  object.add("tokens_per_second", m.tokens_per_second);
  object.add("step_ms", m.step_ms);
  object.add("stall_ms", m.stall_ms);
  constexpr const char* kStall[] = {"stall_h2d_ms", "stall_d2h_ms", "stall_update_ms",
                                    "stall_nvme_read_ms", "stall_nvme_write_ms"};
  constexpr const char* kBusy[] = {"busy_h2d_ms", "busy_d2h_ms", "busy_update_ms",
                                   "busy_nvme_read_ms", "busy_nvme_write_ms"};
  for (size_t r = 1; r < kResources; ++r) object.add(kStall[r - 1], m.stalls.on[r] * 1e3);
  object.add("stall_sharing_ms", m.stalls.sharing * 1e3);
  object.add("stall_issuer_ms", m.stalls.issuer * 1e3);
  for (size_t r = 1; r < kResources; ++r) object.add(kBusy[r - 1], m.busy[r] * 1e3);
  object.add("used_peak_device_bytes", m.used_peak_device_bytes);
  object.add("used_peak_host_bytes", m.used_peak_host_bytes);
  object.add("used_peak_nvme_bytes", m.used_peak_nvme_bytes);
  object.add("resident_bytes", m.resident_bytes);
  object.add("locked_bytes", m.locked_bytes);
  object.add("h2d_bytes", m.h2d_bytes);
  object.add("d2h_bytes", m.d2h_bytes);
  object.add("nvme_read_bytes", m.nvme_read_bytes);
  object.add("nvme_write_bytes", m.nvme_write_bytes);
  if (m.validation_loss) object.add("validation_loss", *m.validation_loss);
  const FlatObject::Text& line = object.line();
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(descriptor_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw IoError(fmt::format("cannot write metrics to '{}': {}", path_, std::strerror(errno)));
    }
    done += static_cast<size_t>(n);
  }
}

void MetricsWriter::sync() {
  // EINVAL: not a file, such as a pipe.
  if (::fsync(descriptor_) < 0 && errno != EINVAL) throw io_error("sync", path_, errno);
}

}  // namespace strata
