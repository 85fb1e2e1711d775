// Streams and backends: where work runs and where memory comes from. The engine is written against
// these two classes alone; `host` runs on CPU threads, `virtual` only advances clocks.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "runtime/fence.hpp"

namespace strata {

enum class Tier : uint8_t { device, host, nvme };
constexpr size_t kTiers = 3;
const char* name_of(Tier) noexcept;

/// One FIFO queue each. Backends without an NVMe tier have no streams for its two.
enum class Resource : uint8_t { compute, h2d, d2h, update, nvme_read, nvme_write };
constexpr size_t kResources = 6;
const char* name_of(Resource) noexcept;

/// What a launch is expected to need; real backends ignore it, the virtual one turns it into time.
struct Cost {
  uint64_t flops = 0;
  uint64_t bytes = 0;
  /// What it takes when that is known, whatever the other two say; 0: not known.
  double seconds = 0;
};

/// What a record of a stream is for, in the words of whoever observes; 0: nothing that counts.
using WorkLabel = uint64_t;
/// Of a label: the observer wants to hear when the work began and ended.
constexpr WorkLabel kTimed = WorkLabel{1} << 63;

/// Hears what streams do, on their threads: of a stream one call of a kind at a time, but work may
/// be told of while a wait is. Times are those of the backend's clock.
class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  /// Work with a timed label. Consecutive records of one label may come in one call or several.
  virtual void worked(Resource, WorkLabel, double begin, double end) noexcept = 0;
  /// A record waited: for a fence of another stream, recorded there under `on_label`, or, where
  /// `on` is the stream itself, for others to leave the cores.
  virtual void waited(Resource, WorkLabel, Resource on, WorkLabel on_label, double begin,
                      double end) noexcept = 0;
};

/// What a stream's time went to since the start, in seconds.
struct StreamTimes {
  /// Held up by that stream, which was at work, or by others in their turn as far as it is known.
  std::array<double, kResources> waited{};
  double idle = 0;     // nothing was issued
  double sharing = 0;  // others had the cores, or a part of them
  /// At work, waits for the cores included. Real backends do not measure compute's.
  double busy = 0;
};

/// A kernel as a stream calls it: `native` is the backend's own handle (host: `HostContext*`).
using KernelFn = void (*)(void* native, const void* args);

/// A FIFO of fixed-size records: no heap, no std::function. All calls come from the issuer thread.
class Stream {
 public:
  /// Largest argument block of a launch, in bytes.
  static constexpr size_t kMaxArgs = 216;

  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Later work of this stream starts after `fence`. Throws StateError unless it is enqueued: CUDA
  /// silently ignores a wait on an event that was not recorded yet.
  void wait(const Fence& fence);
  void copy(void* dst, const void* src, size_t bytes);
  void launch(KernelFn fn, const void* args, size_t arg_bytes, Cost cost);
  /// An enqueued fence, done when everything issued so far is.
  Fence record();
  /// Of all that is issued from now on. Observers of streams that wait for its fences hear it too.
  void set_label(WorkLabel label) noexcept { label_ = label; }
  /// Which of a backend's streams this is, and who hears what it does (null: nobody). While nothing
  /// is issued.
  void attach(Resource, StreamObserver*) noexcept;

 protected:
  Stream() = default;
  Resource resource() const noexcept { return resource_; }
  WorkLabel label() const noexcept { return label_; }
  StreamObserver* observer() const noexcept { return observer_; }

 private:
  virtual void do_wait(const Fence&) = 0;
  virtual void do_copy(void* dst, const void* src, size_t bytes) = 0;
  virtual void do_launch(KernelFn, const void* args, size_t arg_bytes, Cost) = 0;
  virtual Fence do_record() = 0;

  Resource resource_ = Resource::compute;
  WorkLabel label_ = 0;
  StreamObserver* observer_ = nullptr;
};

/// Memory handed out by a backend; freed on destruction.
class Arena {
 public:
  Arena() = default;
  using Free = void (*)(std::byte* base, size_t bytes, void* owner);
  Arena(std::byte* base, size_t bytes, Free free, void* owner = nullptr)
      : base_(base), bytes_(bytes), free_(free), owner_(owner) {}
  Arena(Arena&& o) noexcept { *this = std::move(o); }
  Arena& operator=(Arena&& o) noexcept;
  ~Arena();

  std::byte* base() const noexcept { return base_; }
  size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  Free free_ = nullptr;
  void* owner_ = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Stream& stream(Resource) = 0;
  /// Throws OutOfMemory when the operating system refuses. Zero bytes is legal.
  virtual Arena allocate(Tier, size_t bytes) = 0;
  /// False when memory is only an address range and kernels never run (virtual time).
  virtual bool executes() const noexcept = 0;
  /// Blocks the issuer until `fence` is done; rethrows what a worker threw.
  virtual void wait(const Fence& fence) = 0;
  /// Waits for every stream; rethrows what a worker threw, after all of them are idle.
  virtual void drain() = 0;
  virtual StreamTimes stream_times(Resource) const = 0;
  /// Seconds the stream's work was held up by fences of other streams, since the start.
  double waited(Resource) const;
  /// Who hears what all streams do; null: nobody. While nothing is issued; until the backend goes.
  virtual void observe(StreamObserver*) = 0;
  /// Seconds on the backend's own clock (virtual time on the virtual backend).
  virtual double now() const = 0;
};

/// Enqueues `Fn(native, args...)`, e.g. `launch<host::gelu>(stream, cost, y, x, n)`. Arguments must
/// be trivially copyable and fit `Stream::kMaxArgs`.
template <auto Fn, class Native, class... Args>
void launch_native(Stream& stream, Cost cost, Args... args) {
  using Pack = std::tuple<Args...>;
  static_assert((std::is_trivially_copyable_v<Args> && ...),
                "kernel arguments are copied as bytes");
  static_assert(sizeof(Pack) <= Stream::kMaxArgs, "too many kernel arguments");
  const Pack pack{args...};
  stream.launch(
      [](void* native, const void* raw) {
        std::apply([native](const Args&... a) { Fn(*static_cast<Native*>(native), a...); },
                   *static_cast<const Pack*>(raw));
      },
      &pack, sizeof pack, cost);
}

}  // namespace strata
