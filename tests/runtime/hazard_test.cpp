#include "runtime/hazard.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "runtime/virtual/virtual_backend.hpp"

namespace strata {
namespace {

VirtualRates unit_rates() {
  VirtualRates rates;
  rates.flops_per_second = rates.memory_bytes_per_second = 1;
  rates.update_bytes_per_second = 1;
  rates.h2d_bytes_per_second = rates.d2h_bytes_per_second = 1;
  rates.nvme_read_bytes_per_second = rates.nvme_write_bytes_per_second = 1;
  rates.latency_seconds = 0;
  return rates;
}

/// Launches `bytes` on the stream, for as many seconds.
Fence run(VirtualBackend& backend, Resource r, uint64_t bytes) {
  backend.stream(r).launch(nullptr, nullptr, 0, {0, bytes});
  return backend.stream(r).record();
}

TEST(Hazard, NothingToWaitForAtFirst) {
  VirtualBackend backend(unit_rates());
  const Hazard hazard;
  hazard.order_write(backend.stream(Resource::h2d), Resource::h2d);
  EXPECT_EQ(backend.time_of(run(backend, Resource::h2d, 3)), 3);
  EXPECT_TRUE(hazard.last_write().done());
}

TEST(Hazard, ReadsDoNotWaitForReads) {
  VirtualBackend backend(unit_rates());
  Hazard hazard;
  hazard.did_read(Resource::compute, run(backend, Resource::compute, 100));
  hazard.order_read(backend.stream(Resource::d2h), Resource::d2h);
  EXPECT_EQ(backend.time_of(run(backend, Resource::d2h, 1)), 1);
}

// Random accesses against the definition: a read starts when its stream is idle and the last write
// done, a write when in addition all reads since that write are; neither earlier nor later.
TEST(Hazard, OrdersExactlyWhatConflicts) {
  struct Cell {
    Hazard hazard;
    double write_end = 0, reads_end = 0;
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    VirtualBackend backend(unit_rates());
    std::mt19937_64 draw(seed);
    std::array<Cell, 4> cells;
    std::array<double, kResources> stream_end{};
    std::vector<std::pair<Fence, double>> expected;
    for (int i = 0; i < 500; ++i) {
      const auto r = static_cast<Resource>(draw() % kResources);
      Cell& cell = cells[draw() % cells.size()];
      const uint64_t bytes = 1 + draw() % 9;
      const bool writes = draw() % 2 == 0;
      double& end = stream_end[static_cast<size_t>(r)];
      double start = std::max(end, cell.write_end);
      if (writes) start = std::max(start, cell.reads_end);
      end = start + static_cast<double>(bytes);

      Stream& s = backend.stream(r);
      writes ? cell.hazard.order_write(s, r) : cell.hazard.order_read(s, r);
      const Fence done = run(backend, r, bytes);
      expected.emplace_back(done, end);
      if (writes) {
        cell.hazard.did_write(r, done);
        cell.write_end = end;
        cell.reads_end = 0;
      } else {
        cell.hazard.did_read(r, done);
        cell.reads_end = std::max(cell.reads_end, end);
      }
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(backend.time_of(expected[i].first), expected[i].second)
          << "seed " << seed << ", access " << i;
    }
  }
}

}  // namespace
}  // namespace strata
