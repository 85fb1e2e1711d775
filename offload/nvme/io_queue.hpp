// Asynchronous transfers: one interface over io_uring and over threads that read and write.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/files/files.hpp"

namespace strata {

struct IoRequest {
  uint32_t tag = 0;   // below the queue's depth, unlike that of any request in flight
  uint32_t file = 0;  // index of the queue's files
  bool write = false;
  std::byte* data = nullptr;
  uint32_t bytes = 0;
  uint64_t offset = 0;
};

/// Hears of completions, on threads of the queue.
class IoSink {
 public:
  virtual ~IoSink() = default;
  /// `result`: bytes moved, maybe fewer than asked, or -errno.
  virtual void completed(const IoRequest&, int64_t result) noexcept = 0;
};

/// Starts transfers in the order of `submit` and completes them in any. The caller keeps at most
/// `depth` in flight. Requests must be done before the queue goes.
class IoQueue {
 public:
  virtual ~IoQueue() = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  /// One thread only. Copies the requests. Those the system does not take complete with its error,
  /// on this thread.
  virtual void submit(std::span<const IoRequest>) noexcept = 0;
  /// Maps the pages of memory once, not again for each request inside it, which pins them. Empty,
  /// or why requests do as before. Any thread; no request may be inside.
  virtual std::string add_memory(std::span<std::byte>) { return {}; }
  /// Before memory that was added goes, and others get its addresses.
  virtual void remove_memory(std::span<std::byte>) noexcept {}

 protected:
  IoQueue() = default;
};

/// Names, in the order they are tried.
constexpr const char* kIoEngines[] = {"io_uring", "threads"};

/// Makes a queue of the named engine. Throws IoError when the system does not offer it.
/// `buffer_bytes`: added memory is cut into buffers of at most so many.
std::unique_ptr<IoQueue> make_io_queue(const std::string& engine, std::vector<File*> files,
                                       uint32_t depth, size_t buffer_bytes, IoSink& sink);
std::unique_ptr<IoQueue> make_uring_queue(const std::vector<File*>& files, uint32_t depth,
                                          size_t buffer_bytes, IoSink& sink);
std::unique_ptr<IoQueue> make_thread_queue(std::vector<File*> files, uint32_t depth, IoSink& sink);

/// Empty when io_uring works here, else why it does not.
std::string why_no_uring();

}  // namespace strata
