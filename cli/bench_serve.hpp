// The worker's side of `strata bench step`.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/bench_worker.hpp"
#include "cli/line_channel.hpp"

namespace strata {

/// What a worker does each time it is asked.
class BenchTask {
 public:
  virtual ~BenchTask() = default;
  /// FLOP/s.
  virtual BenchRates measure() = 0;
  /// One line for the reader of the figures.
  virtual std::string about() const = 0;
};

/// Makes the task, says it is ready, and measures on request until the parent is gone. Returns the
/// exit code; an exception's text goes to the parent. Answers wait until no thread of the process
/// runs any more.
int serve_bench(LineChannel&, const std::function<std::unique_ptr<BenchTask>()>& make);

/// Called by `main` before anything else: the exit code when this process is a worker.
std::optional<int> worker_main(int argc, char** argv);

}  // namespace strata
