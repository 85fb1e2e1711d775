#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "runtime/hazard.hpp"
#include "runtime/host/host_backend.hpp"

namespace strata {
namespace {

struct Cell {
  uint64_t value = 0;
  Hazard hazard;
};

void put(HostContext&, uint64_t* cell, uint64_t value) { *cell = value; }
void get(HostContext&, const uint64_t* cell, uint64_t expected, uint64_t* wrong) {
  if (*cell != expected) ++*wrong;
}

// Reads after writes, writes after reads and writes after writes, over all pairs of streams: each
// access must see memory as if issue order were the order of execution. ThreadSanitizer watches
// that it is the hazards that see to it.
TEST(ConcurrencyHazard, AccessesHappenAsIssuedUnderDelays) {
  for (const uint64_t seed : {0u, 1u, 2u, 3u}) {
    HostBackendOptions options;
    options.threads = 1;
    options.delay_seed = seed;
    options.max_delay_microseconds = 100;
    HostBackend backend(options);
    std::mt19937_64 draw(seed + 11);
    std::array<Cell, 3> cells;
    std::array<uint64_t, kResources> wrong{};
    std::array<uint64_t, 3> newest{};
    for (uint64_t i = 1; i <= 600; ++i) {
      const auto r = static_cast<Resource>(draw() % kResources % 4);  // those of every backend
      const size_t c = draw() % cells.size();
      Stream& s = backend.stream(r);
      Cell& cell = cells[c];
      if (draw() % 2 == 0) {
        cell.hazard.order_read(s, r);
        launch_native<&get, HostContext>(s, {}, &cell.value, newest[c],
                                         &wrong[static_cast<size_t>(r)]);
        cell.hazard.did_read(r, s.record());
      } else {
        cell.hazard.order_write(s, r);
        launch_native<&put, HostContext>(s, {}, &cell.value, i);
        cell.hazard.did_write(r, s.record());
        newest[c] = i;
      }
    }
    backend.drain();
    for (const uint64_t w : wrong) EXPECT_EQ(w, 0u) << "seed " << seed;
    for (size_t c = 0; c < cells.size(); ++c) EXPECT_EQ(cells[c].value, newest[c]);
  }
}

}  // namespace
}  // namespace strata
