#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata {
namespace {

constexpr size_t kHugePage = 2 << 20;
int freed = 0;

Arena counted(std::byte* base) {
  return {base, 1, [](std::byte*, size_t, void*) { ++freed; }};
}

TEST(Arena, FreesOnce) {
  freed = 0;
  std::byte a{}, b{};
  {
    Arena first = counted(&a);
    Arena moved(std::move(first));
    EXPECT_EQ(first.base(), nullptr);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(first.bytes(), 0u);
    EXPECT_EQ(moved.base(), &a);
    Arena second = counted(&b);
    second = std::move(moved);
    EXPECT_EQ(freed, 1) << "what was held before";
    EXPECT_EQ(second.base(), &a);
    Arena& self = second;
    second = std::move(self);
    EXPECT_EQ(second.base(), &a);
    EXPECT_EQ(freed, 1);
  }
  EXPECT_EQ(freed, 2);
}

TEST(Arena, PagesAreAlignedZeroAndWritable) {
  for (const size_t bytes : {size_t{1}, kHugePage - 1, kHugePage, kHugePage + 1}) {
    const Arena arena = allocate_pages(bytes, "device");
    ASSERT_EQ(reinterpret_cast<uintptr_t>(arena.base()) % kHugePage, 0u);
    ASSERT_GE(arena.bytes(), bytes);
    ASSERT_LT(arena.bytes(), bytes + kHugePage);
    for (size_t i = 0; i < arena.bytes(); i += 4096) {
      ASSERT_EQ(arena.base()[i], std::byte{0});
      arena.base()[i] = std::byte{1};
    }
    arena.base()[arena.bytes() - 1] = std::byte{1};
  }
  EXPECT_EQ(allocate_pages(0, "device").base(), nullptr);
}

TEST(Arena, RefusedMemoryNamesTheTierAndWhatToTry) {
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 62}) {
    try {
      HostBackend({}).allocate(Tier::host, bytes);
      FAIL() << "nothing was thrown";
    } catch (const OutOfMemory& e) {
      const std::string message = e.what();
      EXPECT_EQ(e.exit_code(), 5);
      EXPECT_NE(message.find("host"), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(bytes)), std::string::npos) << message;
      EXPECT_NE(message.find("budget"), std::string::npos) << message;
    }
  }
}

/// What it was told of.
struct Told final : TransferMemory {
  void add_memory(std::span<std::byte> m) override { now.push_back(m); }
  void remove_memory(std::span<std::byte> m) noexcept override {
    std::erase_if(now, [&](auto o) { return o.data() == m.data() && o.size() == m.size(); });
  }
  std::vector<std::span<std::byte>> now;
};

TEST(Arena, TransfersAreToldOfThoseOfABackendWhileTheyLast) {
  Told told;
  HostBackendOptions o;
  o.nvme.memory = &told;
  HostBackend backend(o);
  {
    const Arena device = backend.allocate(Tier::device, 5000);
    const Arena none = backend.allocate(Tier::host, 0);
    ASSERT_EQ(told.now.size(), 1u);
    EXPECT_EQ(told.now[0].data(), device.base());
    EXPECT_EQ(told.now[0].size(), device.bytes());
    const Arena host = backend.allocate(Tier::host, 1);
    EXPECT_EQ(told.now.size(), 2u);
  }
  EXPECT_TRUE(told.now.empty());
}

}  // namespace
}  // namespace strata
