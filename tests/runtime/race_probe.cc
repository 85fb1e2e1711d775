// Two streams of the host backend touch the same memory, with the fence wait between them or
// without. ThreadSanitizer must report exactly the second: CMakeLists.txt beside this file runs
// every case. Usage: race_probe with-wait|without-wait kernels|copies|polled|pool
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/backend.hpp"
#include "runtime/host/host_backend.hpp"
#include "runtime/thread_pool.hpp"

namespace strata {
namespace {

constexpr uint32_t kCount = 64;

void fill(HostContext& host, uint32_t* data, uint32_t with) {
  host.pool.parallel_for(kCount, [=](uint32_t i) { data[i] = with; });
}

void raise(HostContext&, std::atomic<bool>* flag) { flag->store(true, std::memory_order_relaxed); }

struct Probe {
  HostBackend backend{{.threads = 2, .h2d = {}, .d2h = {}}};
  Stream& first = backend.stream(Resource::compute);
  Stream& second = backend.stream(Resource::d2h);
  std::vector<uint32_t> data = std::vector<uint32_t>(kCount), other = data, unshared = data;
  bool wait;

  explicit Probe(bool with_wait) : wait(with_wait) {}

  void order(const Fence& after) {
    if (wait) second.wait(after);
  }

  void kernels() {
    launch_native<&fill, HostContext>(first, {}, data.data(), 1u);
    order(first.record());
    launch_native<&fill, HostContext>(second, {}, data.data(), 2u);
  }

  void copies() {
    first.copy(data.data(), other.data(), kCount * sizeof(uint32_t));
    order(first.record());
    second.copy(data.data(), other.data(), kCount * sizeof(uint32_t));
  }

  /// The issuer lets a third stream wait on a fence that is done by then; that must not order the
  /// second stream.
  void polled() {
    auto flag = std::make_unique<std::atomic<bool>>(false);
    launch_native<&fill, HostContext>(first, {}, data.data(), 1u);
    const Fence filled = first.record();
    launch_native<&raise, HostContext>(first, {}, flag.get());
    while (!flag->load(std::memory_order_relaxed)) {
    }
    backend.stream(Resource::update).wait(filled);
    order(filled);
    launch_native<&fill, HostContext>(second, {}, data.data(), 2u);
    backend.drain();
  }

  /// Both streams have used the pool's threads in turn; that must not order them.
  void pool() {
    auto flag = std::make_unique<std::atomic<bool>>(false);
    launch_native<&fill, HostContext>(first, {}, data.data(), 1u);
    const Fence filled = first.record();
    launch_native<&fill, HostContext>(first, {}, unshared.data(), 1u);
    launch_native<&raise, HostContext>(first, {}, flag.get());
    while (!flag->load(std::memory_order_relaxed)) {
    }
    launch_native<&fill, HostContext>(second, {}, other.data(), 1u);
    order(filled);
    launch_native<&fill, HostContext>(second, {}, data.data(), 2u);
    backend.drain();
  }
};

int run(std::string_view wait, std::string_view name) {
  if (wait != "with-wait" && wait != "without-wait") return 2;
  Probe probe(wait == "with-wait");
  if (name == "kernels") {
    probe.kernels();
  } else if (name == "copies") {
    probe.copies();
  } else if (name == "polled") {
    probe.polled();
  } else if (name == "pool") {
    probe.pool();
  } else {
    return 2;
  }
  probe.backend.drain();
  return 0;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  if (argc == 3) return strata::run(argv[1], argv[2]);
  std::fputs("usage: race_probe with-wait|without-wait kernels|copies|polled|pool\n", stderr);
  return 2;
}
