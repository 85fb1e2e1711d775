#include "offload/nvme/io_queue.hpp"

#include "runtime/errors.hpp"

namespace strata {

std::unique_ptr<IoQueue> make_io_queue(const std::string& engine, std::vector<File*> files,
                                       uint32_t depth, size_t buffer_bytes, IoSink& sink) {
  if (engine == kIoEngines[0]) return make_uring_queue(files, depth, buffer_bytes, sink);
  if (engine == kIoEngines[1]) return make_thread_queue(std::move(files), depth, sink);
  throw ConfigError("I/O engine '" + engine + "' is not known; use io_uring or threads");
}

}  // namespace strata
