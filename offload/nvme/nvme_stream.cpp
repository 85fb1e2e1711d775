#include "offload/nvme/nvme_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "runtime/clock.hpp"
#include "runtime/files/io_error.hpp"
#include "runtime/futex.hpp"
#include "runtime/hash.hpp"
#include "runtime/sanitizer.hpp"

namespace strata {
namespace {

constexpr int kMostRetries = 200;
constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

NvmeStream::NvmeStream(NvmeStore& store, Direction direction, WrapSink wrap, void* wrap_context)
    : WorkerStream(store.options_.delay_seed == 0
                       ? 0
                       : store.options_.delay_seed * 2 + static_cast<uint64_t>(direction) + 1,
                   200, 0, /*completes_later=*/true),
      store_(store),
      direction_(direction),
      slots_(store.options_.depth),
      entries_(new Entry[kEntries]) {
  if (wrap != nullptr) wrapped_ = wrap(*this, wrap_context);
  std::vector<File*> files;
  for (const ScratchFile& f : store.files_) files.push_back(f.file.get());
  queue_ = make_io_queue(store.engine_, files, store.options_.depth, store.options_.buffer_bytes,
                         wrapped_ ? *wrapped_ : static_cast<IoSink&>(*this));
  start();
}

NvmeStream::~NvmeStream() {
  stop();
  // The queue must not be in the middle of a transfer when it goes.
  while (!idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool NvmeStream::idle() const noexcept {
  return std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.busy.load(); });
}

void NvmeStream::run_launch(const Launch&) {
  throw StateError("a stream of the NVMe tier runs no kernels");
}

void NvmeStream::run_copy(const Copy& c) {
  const size_t unit_bytes = store_.options_.unit_bytes;
  const bool write = direction_ == Direction::write;
  const auto* at = static_cast<const std::byte*>(write ? c.dst : c.src);
  auto* memory = static_cast<std::byte*>(write ? const_cast<void*>(c.src) : c.dst);
  const auto offset = static_cast<size_t>(at - store_.base_);
  const size_t unit = offset / unit_bytes;
  if (offset % unit_bytes != 0 || unit >= store_.options_.units || c.bytes != unit_bytes) {
    throw StateError(fmt::format("a copy of {} bytes at {} of the NVMe tier is not one whole unit",
                                 c.bytes, offset));
  }
  if (store_.limit_.limits()) {
    const int64_t now = Clock::now().time_since_epoch().count();
    std::this_thread::sleep_until(
        Clock::time_point(Clock::duration(store_.limit_.end_of(c.bytes, now))));
  }
  if (began_ == 0) began_ = seconds_now();
  batch_.clear();
  const auto target = reinterpret_cast<uintptr_t>(c.dst);
  wait_for_writers_of(target);
  if (failed()) return;
  for (uint32_t p = 0; p < store_.pieces(); ++p) {
    const size_t begin = size_t{p} * store_.options_.request_bytes;
    const size_t bytes = std::min<size_t>(store_.options_.request_bytes, unit_bytes - begin);
    std::byte* const data = memory + begin;
    if (!write) note_kernel_wrote(data, bytes);  // from here on, whenever it likes
    if (write) {
      note_kernel_reads(data, bytes);
      if (store_.options_.checksums) {
        store_.checksum(static_cast<uint32_t>(unit), p) = hash_bytes(data, bytes);
      }
    }
    uint32_t slot = free_slot();
    if (slot == kNone) {
      queue_->submit(batch_);
      batch_.clear();
      slot = wait_for_slot();
      if (slot == kNone) return;
    }
    Slot& s = slots_[slot];
    s.unit = static_cast<uint32_t>(unit);
    s.piece = p;
    s.target = target;
    s.entry = take_entry(nullptr);
    const auto where = store_.place(s.unit, p);
    s.started.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    batch_.push_back({slot, where.file, write, data, static_cast<uint32_t>(bytes), where.offset});
  }
  if (!batch_.empty()) queue_->submit(batch_);
}

/// A stream's work is in order, so nobody else waits before a later copy writes what an earlier one
/// still writes.
void NvmeStream::wait_for_writers_of(uintptr_t target) noexcept {
  const size_t n = store_.options_.unit_bytes;
  for (const Slot& s : slots_) {
    for (;;) {
      const uint32_t seen = freed_.load(std::memory_order_acquire);
      const bool overlaps = target < s.target + n && s.target < target + n;
      if (!overlaps || !s.busy.load(std::memory_order_acquire) || failed()) break;
      futex_wait(freed_, seen);
    }
  }
}

uint32_t NvmeStream::free_slot() noexcept {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].busy.load(std::memory_order_acquire)) continue;
    slots_[i].busy.store(true, std::memory_order_relaxed);
    return i;
  }
  return kNone;
}

uint32_t NvmeStream::wait_for_slot() noexcept {
  for (;;) {
    const uint32_t seen = freed_.load(std::memory_order_acquire);
    const uint32_t slot = free_slot();
    if (slot != kNone || failed()) return slot;
    futex_wait(freed_, seen);
  }
}

uint32_t NvmeStream::take_entry(const Fence* fence, WorkLabel label) noexcept {
  const uint32_t head = head_.load(std::memory_order_relaxed);
  for (uint32_t tail; head - (tail = tail_.load(std::memory_order_acquire)) >= kEntries;) {
    futex_wait(tail_, tail);
  }
  Entry& e = entries_[head % kEntries];
  e.done = false;
  e.is_fence = fence != nullptr;
  if (fence != nullptr) {
    e.fence = *fence;
    e.label = label;
    e.began = std::exchange(began_, 0);
  }
  head_.store(head + 1, std::memory_order_release);
  return head;
}

void NvmeStream::run_record(const Fence& fence, WorkLabel label) {
  retire(take_entry(&fence, label));
}

/// Marks an entry done, and lets all leave that wait for none before them.
void NvmeStream::retire(uint32_t entry) noexcept {
  const std::lock_guard lock(retiring_);
  entries_[entry % kEntries].done = true;
  leave();
}

void NvmeStream::leave() noexcept {
  const uint32_t head = head_.load(std::memory_order_acquire);
  uint32_t tail = tail_.load(std::memory_order_relaxed);
  for (; tail != head; ++tail) {
    Entry& e = entries_[tail % kEntries];
    if (!e.done && !abandoned_) break;
    if (!e.is_fence) continue;
    // Transfers overlap; each is charged from when the one before had come.
    if (e.began != 0) {
      const double now = seconds_now();
      note_worked(e.label, std::max(e.began, last_left_), now);
      last_left_ = now;
    }
    FenceRing::complete(e.fence);
  }
  tail_.store(tail, std::memory_order_release);
  futex_wake_one(tail_);
}

void NvmeStream::completed(const IoRequest& r, int64_t result) noexcept {
  Slot& s = slots_[r.tag];
  // After a failure the memory may be gone: whoever waited was told.
  if (!failed()) {
    try {
      if (result != static_cast<int64_t>(r.bytes)) finish(r, result);
      if (!r.write) {
        note_kernel_wrote(r.data, r.bytes);
        if (store_.options_.checksums) check_content(r, s);
      }
      bytes_.fetch_add(r.bytes, std::memory_order_relaxed);
    } catch (...) {
      fail(std::current_exception());
    }
  }
  const uint32_t entry = s.entry.load(std::memory_order_relaxed);
  s.started.store(0, std::memory_order_relaxed);
  retire(entry);
  s.busy.store(false, std::memory_order_release);
  freed_.fetch_add(1, std::memory_order_release);
  futex_wake_one(freed_);
}

void NvmeStream::finish(const IoRequest& r, int64_t result) {
  const ScratchFile& f = store_.files_[r.file];
  const char* const verb = r.write ? "write" : "read";
  const uint32_t unit = slots_[r.tag].unit;
  size_t done = 0;
  for (int tries = 0;;) {
    if (result < 0) {
      const int error = static_cast<int>(-result);
      if (!may_retry(error) || ++tries > kMostRetries) {
        throw store_.error(io_error(verb, r.bytes, r.offset, f.file->name(), error).what(), unit);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else if (result == 0) {
      throw store_.error(
          io_error(verb, r.bytes, r.offset, f.file->name(), r.write ? ENOSPC : 0).what(), unit);
    } else {
      const size_t before = done;
      done += static_cast<size_t>(result);
      if (done >= r.bytes) return;
      // Past the page cache only whole blocks may follow.
      if (f.direct) done = done / f.block * f.block;
      if (done > before) {
        tries = 0;
      } else if (++tries > kMostRetries) {
        throw store_.error(io_error(verb, r.bytes, r.offset, f.file->name(), EIO).what(), unit);
      }
    }
    std::byte* const data = r.data + done;
    const size_t bytes = r.bytes - done;
    result = r.write ? f.file->write(data, bytes, r.offset + done)
                     : f.file->read(data, bytes, r.offset + done);
  }
}

void NvmeStream::check_content(const IoRequest& r, const Slot& s) {
  const uint64_t expected = store_.checksum(s.unit, s.piece);
  if (hash_bytes(r.data, r.bytes) == expected) return;
  throw store_.error(
      fmt::format("read {} bytes at offset {} of {}, and they are not those that were written "
                  "(checksum mismatch); the drive or its cable is failing, use another",
                  r.bytes, r.offset, store_.files_[r.file].file->name()),
      s.unit);
}

void NvmeStream::check_age() {
  const int64_t now = Clock::now().time_since_epoch().count();
  const double limit = store_.options_.timeout_seconds * 1e9;
  for (const Slot& s : slots_) {
    const int64_t started = s.started.load(std::memory_order_relaxed);
    if (started == 0 || static_cast<double>(now - started) < limit) continue;
    const auto where = store_.place(s.unit, s.piece);
    fail(std::make_exception_ptr(store_.error(
        fmt::format("a {} at offset {} of {} has not come back for {} s; the drive hangs: look at "
                    "the kernel's log, or use another",
                    direction_ == Direction::write ? "write" : "read", where.offset,
                    store_.files_[where.file].file->name(), store_.options_.timeout_seconds),
        s.unit)));
    // Nobody may wait for ever: from here on fences complete whatever is still in flight.
    const std::lock_guard lock(retiring_);
    if (abandoned_) continue;
    abandoned_ = true;
    leave();
    freed_.fetch_add(1, std::memory_order_release);
    futex_wake_one(freed_);
  }
}

}  // namespace strata
