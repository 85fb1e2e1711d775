#include "cli/offload_bench.hpp"

#include <algorithm>
#include <cmath>

#include "models/gpt2_config.hpp"
#include "offload/bound.hpp"
#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/host/host_backend.hpp"
#include "runtime/topology.hpp"

namespace strata {
namespace {

/// Units beside a tier's homes: more would be of no use.
constexpr uint64_t kSpareUnits = 64;

StepParams step_params(uint64_t step, double lr, uint64_t tokens) {
  return {step, lr, static_cast<double>(tokens)};
}

uint64_t tokens_of(const Workload& w) {
  return w.config().shape.rows() * w.config().shape.micro_batches;
}

}  // namespace

SessionConfig session_config(const OffloadBenchArgs& a) {
  SessionConfig c;
  c.model = a.model.model;
  c.shape = {a.model.batch, a.model.seq != 0 ? a.model.seq : parse_gpt2(a.model.model).positions,
             a.model.accum};
  c.dtype = a.model.dtype;
  c.recompute = a.model.recompute;
  c.optimizer = a.optimizer.config;
  c.clip = a.optimizer.clip;
  c.seed = a.seed;
  c.policy = "resident";
  c.chunk_bytes = a.chunk_bytes;
  c.threads = a.threads != 0 ? a.threads : default_threads();
  c.evaluates = false;
  return c;
}

uint64_t model_data_bytes(const Workload& w) {
  uint64_t units = 0;
  for (ChunkId c = 0; c < w.layout().chunks(); ++c) {
    units += w.shape().chunk_units(c) - w.shape().units({c, Plane::grad});
  }
  return units * w.shape().unit_bytes();
}

Budgets offload_budgets(const Workload& w, double fraction, bool nvme) {
  const PlanInput in = w.plan_input({});
  const uint64_t unit = in.shape.unit_bytes();
  const double share = fraction * static_cast<double>(model_data_bytes(w));
  Budgets b;
  b.bytes[static_cast<size_t>(Tier::device)] =
      non_model_bytes(in.layout, in.shape, in.programs) +
      static_cast<uint64_t>(std::ceil(share / static_cast<double>(unit))) * unit;
  b.bytes[static_cast<size_t>(nvme ? Tier::nvme : Tier::host)] =
      w.state_bytes() * (w.config().clip > 0 ? 2 : 1) + kSpareUnits * unit;
  return b;
}

TimedSession::TimedSession(const Workload& w, const PlanResult& plan, const Budgets& budgets,
                           const RunOptions& options, double lr)
    : random_(w.config().seed, w.model().vocabulary(), tokens_of(w)),
      session_(w, plan, budgets, options),
      lr_(lr) {}

void TimedSession::stamp(HostContext&, double* when) { *when = seconds_now(); }

StepMeans TimedSession::run(uint32_t steps) {
  double begin = 0, end = 0;
  EngineStats from, to;
  Stream& compute = session_.backend().stream(Resource::compute);
  for (uint32_t i = 0; i < kWarmUpSteps + steps; ++i, ++steps_) {
    session_.step(random_.batch(steps_), step_params(steps_, lr_, random_.tokens()));
    // The stream itself takes the time: the issuer is ahead of it.
    if (i + 1 == kWarmUpSteps) {
      from = session_.engine().stats();
      launch_native<stamp, HostContext>(compute, Cost{}, &begin);
    }
    if (i + 1 == kWarmUpSteps + steps) {
      to = session_.engine().stats();
      launch_native<stamp, HostContext>(compute, Cost{}, &end);
    }
  }
  session_.flush();
  session_.backend().drain();
  if (!session_.result(0).applied) {
    throw NonFinite("bench: step " + std::to_string(steps_) +
                    " on random tokens was not finite, so it was skipped and its time means "
                    "nothing; try a smaller --lr");
  }
  const auto mean = [&](uint64_t EngineStats::*n) {
    return static_cast<double>(to.*n - from.*n) / steps;
  };
  return {(end - begin) / steps, mean(&EngineStats::h2d_bytes), mean(&EngineStats::d2h_bytes),
          mean(&EngineStats::nvme_read_bytes), mean(&EngineStats::nvme_write_bytes)};
}

TimedKernels::TimedKernels(const Workload& w, double lr)
    : random_(w.config().seed, w.model().vocabulary(), tokens_of(w)), direct_(w), lr_(lr) {}

DirectStep::Times TimedKernels::run(uint32_t least_steps, double least_seconds) {
  const auto step = [&] {
    const TokenBatch batch = random_.batch(steps_);
    return direct_.step(batch, step_params(steps_++, lr_, random_.tokens()));
  };
  for (uint32_t i = 0; i < kWarmUpSteps; ++i) step();
  DirectStep::Times sum;
  uint32_t count = 0;
  for (; count < least_steps || sum.sum() < least_seconds; ++count) {
    const DirectStep::Times t = step();
    sum = {sum.compute + t.compute, sum.norm + t.norm, sum.update + t.update};
  }
  return {sum.compute / count, sum.norm / count, sum.update / count};
}

VirtualRates with_kernels(const VirtualRates& links, const Workload& w,
                          const DirectStep::Times& t) {
  VirtualRates r = links;
  r.one_processor = true;
  const PlanInput in = w.plan_input({});
  uint64_t bytes = 0;  // of square sums and updates, as the engine declares them
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) {
    if (in.shape.trained(c)) bytes += in.shape.unit_bytes();
    for (const ChunkSlice& s : in.shape.slices(c)) {
      bytes += s.elems * in.updater.bytes_per_element();
    }
  }
  r.memory_bytes_per_second = static_cast<double>(bytes) / (t.norm + t.update);
  r.update_bytes_per_second = r.memory_bytes_per_second;
  // The more FLOP/s, the less time: the rate at which the ops take as long as they did.
  double least = 1, most = 1e18;
  for (int i = 0; i < 200; ++i) {
    r.flops_per_second = std::sqrt(least * most);
    const double seconds = compute_seconds(w.program(Mode::train), r);
    (seconds > t.compute ? least : most) = r.flops_per_second;
  }
  return r;
}

void measure_copies(VirtualRates& r, uint32_t threads, size_t unit_bytes, double seconds) {
  HostBackendOptions options;
  options.threads = threads;
  HostBackend backend(options);
  constexpr size_t kUnits = 32;  // more than caches hold
  const Arena from = allocate_pages(kUnits * unit_bytes, "a measurement of copies");
  const Arena to = allocate_pages(kUnits * unit_bytes, "a measurement of copies");
  std::memset(from.base(), 0, from.bytes());
  std::memset(to.base(), 0, to.bytes());
  const auto rate = [&](Resource link) {
    Stream& stream = backend.stream(link);
    const double start = seconds_now();
    double bytes = 0, took = 0;
    do {
      for (size_t i = 0; i < kUnits; ++i) {
        stream.copy(to.base() + i * unit_bytes, from.base() + i * unit_bytes, unit_bytes);
      }
      backend.wait(stream.record());
      bytes += static_cast<double>(kUnits * unit_bytes);
      took = seconds_now() - start;
    } while (took < seconds);
    return bytes / took;
  };
  r.h2d_bytes_per_second = rate(Resource::h2d);
  r.d2h_bytes_per_second = rate(Resource::d2h);
}

void measure_drive(VirtualRates& r, NvmeTransfers& transfers, double seconds) {
  r.nvme_read_bytes_per_second = transfers.measure(TransferMix::read, seconds);
  r.nvme_write_bytes_per_second = transfers.measure(TransferMix::write, seconds);
  r.nvme_mixed_bytes_per_second = transfers.measure(TransferMix::mixed, seconds);
}

NvmeOptions probe_options(const OffloadBenchArgs& a, const Workload& w) {
  NvmeOptions o;
  o.directories = a.nvme;
  o.checksums = !a.nvme_unchecked;
  o.unit_bytes = w.shape().unit_bytes();
  o.units =
      static_cast<uint32_t>(std::max(w.state_bytes() / w.shape().unit_bytes(), 2 * kSpareUnits));
  o.bytes_per_second = static_cast<double>(a.nvme_rate);
  return o;
}

}  // namespace strata
