#include "offload/simulator.hpp"

#include <algorithm>

#include "offload/planner.hpp"

namespace strata {
namespace {

class LateFetches final : public FetchAheadObserver {
 public:
  explicit LateFetches(VirtualBackend& backend) : backend_(backend) {}
  void waits_for_fetched_ahead(bool on) override { backend_.mark_waits(on); }

 private:
  VirtualBackend& backend_;
};

/// The mean of a step between two readings.
Prediction mean_of(const EngineStats& from, const EngineStats& to, const VirtualTimes& begin,
                   const VirtualTimes& end, uint32_t steps) {
  Prediction p;
  const auto count = [&](uint64_t EngineStats::*n) {
    return (to.*n - from.*n + steps / 2) / steps;
  };
  p.h2d_bytes = count(&EngineStats::h2d_bytes);
  p.d2h_bytes = count(&EngineStats::d2h_bytes);
  p.nvme_read_bytes = count(&EngineStats::nvme_read_bytes);
  p.nvme_write_bytes = count(&EngineStats::nvme_write_bytes);
  p.hits = count(&EngineStats::hits);
  p.demand_misses = count(&EngineStats::demand_misses);
  p.prefetches = count(&EngineStats::prefetches);
  p.wasted_prefetches = count(&EngineStats::wasted_prefetches);
  p.evictions = count(&EngineStats::evictions);
  p.updates = count(&EngineStats::updates);
  const auto mean = [&](double x, double y) { return (y - x) / steps; };
  const VirtualTimes::Stream &a = begin.of(Resource::compute), &b = end.of(Resource::compute);
  p.step_seconds = mean(begin.now, end.now);
  p.late_prefetches = (b.marked_waits - a.marked_waits + steps / 2) / steps;
  for (size_t r = 0; r < kResources; ++r) {
    p.work[r] = mean(begin.streams[r].work, end.streams[r].work);
    p.stalls.on[r] = mean(a.held_up_by[r], b.held_up_by[r]);
  }
  p.stalls.issuer = mean(a.idle, b.idle);
  p.stalls.sharing = std::max(0.0, mean(a.busy, b.busy) - mean(a.work, b.work));
  return p;
}

}  // namespace

Prediction simulate(const PlanInput& in, const Plan& plan, Ledger& ledger, SimulationLength length,
                    IssueLog* log, Timeline* timeline) {
  VirtualBackend backend(in.rates);
  backend.observe(timeline);
  LateFetches late(backend);
  EngineOptions options;
  options.clip = in.clip;
  options.log = log;
  options.observer = &late;
  options.timeline = timeline;
  Engine engine(backend, in.layout, in.shape, plan, in.policy, in.updater, in.programs, ledger,
                options);
  engine.zero_state();
  for (ParamId p = 0; p < in.layout.params().size(); ++p) {
    if (in.layout.storage_of(p) == p) engine.set_weight(p, {});
  }
  backend.drain();
  EngineStats from = engine.stats();
  VirtualTimes begin = backend.times(), end = begin;
  const uint32_t steps = length.warm_up + length.steps;
  const auto step = [&](uint32_t s) {
    engine.begin(0, {s, 0, 1});
    engine.run_program();
    engine.end();
  };
  for (uint32_t s = 0; s < steps; ++s) {
    if (s == length.warm_up) from = engine.stats();
    step(s);
    // A step ends when compute is through with it, whatever goes on elsewhere.
    const bool last_of_warm_up = s + 1 == length.warm_up;
    if (last_of_warm_up || s + 1 == steps) {
      backend.take_times(backend.stream(Resource::compute).record(),
                         last_of_warm_up ? &begin : &end);
    }
  }
  // In the steady state each step runs the updates of the one before it, so the last one's own are
  // left out.
  const EngineStats to = engine.stats();
  if (plan.speculating_chunks() != 0) {
    // For the peaks: of a step whose speculation fails, one that waits for its value, and one that
    // speculates again.
    engine.assume_unexpected(true);
    step(steps);
    step(steps + 1);
    engine.assume_unexpected(false);
    step(steps + 2);
    step(steps + 3);
  }
  // As a run goes on: an evaluation finds the last step's updates still to be made.
  for (uint32_t p = 1; p < in.programs.size(); ++p) {
    engine.begin(p);
    engine.run_program();
    engine.end();
  }
  engine.flush();
  backend.drain();
  return mean_of(from, to, begin, end, length.steps);
}

}  // namespace strata
