#include "train/metrics.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "runtime/errors.hpp"

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

  const fmt::memory_buffer& line() {
    fmt::format_to(fmt::appender(text_), "}}\n");
    return text_;
  }

 private:
  template <class T>
  void append(const char* key, T value) {
    const char* before = text_.size() == 0 ? "{" : ",";
    fmt::format_to(fmt::appender(text_), "{}\"{}\":{}", before, key, value);
  }

  fmt::memory_buffer text_;
};

}  // namespace

MetricsWriter::MetricsWriter(const std::string& path)
    : path_(path),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666)) {
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
  object.add("used_peak_device_bytes", m.used_peak_device_bytes);
  object.add("used_peak_host_bytes", m.used_peak_host_bytes);
  object.add("used_peak_nvme_bytes", m.used_peak_nvme_bytes);
  object.add("h2d_bytes", m.h2d_bytes);
  object.add("d2h_bytes", m.d2h_bytes);
  object.add("nvme_read_bytes", m.nvme_read_bytes);
  object.add("nvme_write_bytes", m.nvme_write_bytes);
  if (m.validation_loss) object.add("validation_loss", *m.validation_loss);
  const fmt::memory_buffer& line = object.line();
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(descriptor_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw IoError(fmt::format("cannot write metrics to '{}': {}", path_, std::strerror(errno)));
    }
    done += static_cast<size_t>(n);
  }
}

}  // namespace strata
