#include "runtime/host/host_backend.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/host/host_stream.hpp"

namespace strata {
namespace {

constexpr size_t kHugePage = 2 << 20;

void unmap(std::byte* base, size_t bytes, void*) { munmap(base, bytes); }

void remove_and_unmap(std::byte* base, size_t bytes, void* memory) {
  static_cast<TransferMemory*>(memory)->remove_memory({base, bytes});
  munmap(base, bytes);
}

/// `bytes` is not 0.
std::span<std::byte> map_pages(size_t bytes, const char* what) {
  const auto refuse = [&](const char* why) {
    return OutOfMemory("the operating system refused " + std::to_string(bytes) + " bytes for the " +
                       what + " arena (" + why +
                       "); lower that tier's budget or raise the memory limit");
  };
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) throw refuse("more than an address can name");
  const size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  // One huge page more than needed, to cut an aligned range out of it.
  void* raw = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw refuse(std::strerror(errno));
  const auto address = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned != address) munmap(raw, aligned - address);
  const uintptr_t end = address + size + kHugePage;
  if (end != aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
  auto* base = reinterpret_cast<std::byte*>(aligned);
  madvise(base, size, MADV_HUGEPAGE);
  return {base, size};
}

}  // namespace

Arena allocate_pages(size_t bytes, const char* what) {
  if (bytes == 0) return {};
  const std::span<std::byte> pages = map_pages(bytes, what);
  return {pages.data(), pages.size(), &unmap};
}

HostBackend::HostBackend(const HostBackendOptions& o)
    : pool_(std::make_unique<ThreadPool>(o.threads)), nvme_(o.nvme) {
  for (size_t r = 0; r <= static_cast<size_t>(Resource::update); ++r) {
    LinkRate rate;
    if (static_cast<Resource>(r) == Resource::h2d) rate = o.h2d;
    if (static_cast<Resource>(r) == Resource::d2h) rate = o.d2h;
    const uint64_t seed = o.delay_seed == 0 ? 0 : (o.delay_seed * 0x9e3779b97f4a7c15u) ^ (r + 1);
    own_.push_back(std::make_unique<HostStream>(*pool_, rate, seed, o.max_delay_microseconds));
    streams_[r] = own_.back().get();
  }
  streams_[static_cast<size_t>(Resource::nvme_read)] = o.nvme.reader;
  streams_[static_cast<size_t>(Resource::nvme_write)] = o.nvme.writer;
  observe(nullptr);
}

// All workers end before any stream goes: one may still wait on a fence of another.
HostBackend::~HostBackend() {
  for (WorkerStream* s : streams_) {
    if (s != nullptr) s->stop();
  }
}

Stream& HostBackend::stream(Resource r) {
  WorkerStream* const s = streams_[static_cast<size_t>(r)];
  if (s == nullptr) throw StateError(std::string("there is no NVMe tier to ") + name_of(r));
  return *s;
}

Arena HostBackend::allocate(Tier tier, size_t bytes) {
  if (tier != Tier::nvme) {
    if (bytes == 0 || nvme_.memory == nullptr) return allocate_pages(bytes, name_of(tier));
    const std::span<std::byte> pages = map_pages(bytes, name_of(tier));
    Arena arena(pages.data(), pages.size(), &remove_and_unmap, nvme_.memory);
    nvme_.memory->add_memory(pages);
    return arena;
  }
  if (bytes > nvme_.bytes) {
    throw StateError("the NVMe tier has " + std::to_string(nvme_.bytes) + " bytes, not " +
                     std::to_string(bytes));
  }
  return {nvme_.base, bytes, nullptr};
}

void HostBackend::wait(const Fence& fence) {
  fence.wait_done();
  for (WorkerStream* s : streams_) {
    if (s != nullptr) s->rethrow();
  }
}

// Every stream is idle when this returns or throws, so that callers may free memory in both cases.
void HostBackend::drain() {
  std::array<Fence, kResources> last;
  for (size_t r = 0; r < kResources; ++r) {
    if (streams_[r] != nullptr) last[r] = streams_[r]->record_always();
  }
  for (const Fence& f : last) f.wait_done();
  for (WorkerStream* s : streams_) {
    if (s != nullptr) s->rethrow();
  }
}

StreamTimes HostBackend::stream_times(Resource r) const {
  const WorkerStream* const s = streams_[static_cast<size_t>(r)];
  return s == nullptr ? StreamTimes{} : s->times();
}

void HostBackend::observe(StreamObserver* observer) {
  for (size_t r = 0; r < kResources; ++r) {
    if (streams_[r] == nullptr) continue;
    streams_[r]->attach(static_cast<Resource>(r), observer);
    streams_[r]->set_siblings(&streams_);
  }
}

double HostBackend::now() const { return seconds_now(); }

}  // namespace strata
