#include "tests/offload/plan_quality.hpp"

#include <algorithm>

#include "offload/policy/planned.hpp"

namespace strata {
namespace {

constexpr size_t kPlenty = size_t{1} << 50;
/// Plans of reactive policies may take turns of several steps.
constexpr SimulationLength kMean{3, 24};

}  // namespace

const char* name_of(Below b) noexcept {
  constexpr const char* kNames[] = {"device, nvme", "device, host", "three tiers"};
  return kNames[static_cast<size_t>(b)];
}

VirtualRates rates_without_latency(Below below) {
  VirtualRates r;
  r.latency_seconds = 0;
  r.memory_bytes_per_second = 1e15;
  r.update_bytes_per_second = 4e10;
  if (below != Below::host) r.nvme_mixed_bytes_per_second = 2e9;
  return r;
}

PlanCase::PlanCase(const TraceFile& file, const TraceWorkloadConfig& config, Below below,
                   double device, double host, const VirtualRates& rates)
    : file_(file),
      config_(config),
      below_(below),
      rates_(rates),
      workload_(std::make_shared<TraceWorkload>(file, config)) {
  const StateShape& shape = workload_->shape();
  size_t all = 0, largest = 0;
  for (ChunkId c = 0; c < chunks(); ++c) {
    const size_t bytes = shape.chunk_units(c) * shape.unit_bytes();
    all += bytes;
    largest = std::max(largest, bytes);
  }
  size_t host_bytes = 0;
  if (below == Below::host) host_bytes = all;
  if (below == Below::both) {
    host_bytes = 4 * largest + static_cast<size_t>(host * static_cast<double>(all));
  }
  budgets_.bytes = {kPlenty, host_bytes, below == Below::host ? 0 : all};
  const auto resident = make_policy("resident"), streams = make_policy("lru");
  const size_t most = make_plan(input(*resident)).minimum[0];
  const size_t least = make_plan(input(*streams)).minimum[0];
  budgets_.bytes[0] =
      least + static_cast<size_t>(device * static_cast<double>(most > least ? most - least : 0));
}

PlanInput PlanCase::input(const Policy& policy, SimulationLength length) const {
  return workload_->input(policy, budgets_, 0, rates_, length);
}

uint64_t PlanCase::units() const {
  uint64_t sum = 0;
  for (ChunkId c = 0; c < chunks(); ++c) sum += workload_->shape().chunk_units(c);
  return sum;
}

double PlanCase::transfers_at_least() const {
  PlanCase idle = *this;
  for (TraceSegment& s : idle.file_.trace.segments) {
    for (TraceOp& op : s.ops) op.flops = op.bytes = 0, op.seconds = 0;
  }
  idle.rates_.update_bytes_per_second = 1e18;
  idle.workload_ = std::make_shared<TraceWorkload>(idle.file_, config_);
  const auto policy = make_policy("auto");
  return bound_of(idle.input(*policy)).step_seconds;
}

PlanCase PlanCase::with_compute(double x) const {
  PlanCase out = *this;
  const auto policy = make_policy("auto");
  const double compute = compute_seconds(workload_->program(), rates_);
  const double updates = rates_.one_processor ? update_seconds(input(*policy)) : 0;
  const double wanted = std::max(x * transfers_at_least() - updates, 0.0);
  for (TraceSegment& s : out.file_.trace.segments) {
    for (TraceOp& op : s.ops) {
      op.seconds = seconds_of({op.flops, op.bytes, op.seconds}, rates_) * wanted / compute;
      if (op.seconds == 0) op.flops = op.bytes = 0;
    }
  }
  out.workload_ = std::make_shared<TraceWorkload>(out.file_, config_);
  return out;
}

std::optional<PlanCase::Bytes> PlanCase::bytes(uint32_t optimum_solves) const {
  const auto policy = make_policy("auto");
  PlanInput in = input(*policy, kMean);
  in.objective = Objective::bytes;
  const PlanResult r = make_plan(in);
  if (!r.fits) return std::nullopt;
  const Bound bound = bound_of(in);
  Bytes out{transfer_seconds(r.prediction, rates_), bound.transfer_seconds, 0, 0, std::nullopt};
  const double unit = static_cast<double>(workload_->shape().unit_bytes());
  const LinkUnits all{1, 1, 1, 1}, host_links{1, 1, 0, 0}, drive_links{0, 0, 1, 1};
  const LinkUnits links = below_ == Below::both   ? all
                          : below_ == Below::host ? host_links
                                                  : drive_links;
  const LinkUnits costs = link_costs_alone(rates_, static_cast<size_t>(unit));
  uint32_t largest = 0;
  for (ChunkId c = 0; c < chunks(); ++c) {
    for (size_t p = 0; p < kPlanes; ++p) {
      largest = std::max(largest, workload_->shape().units({c, static_cast<Plane>(p)}));
    }
  }
  out.round_trip = largest * links.dot(costs);
  out.units = bound.bytes.dot(all) / unit;
  if (optimum_solves != 0) {
    const PlacementInput placement = placement_input(in);
    const Place staging = staging_of(placement);
    const Program& program = workload_->program();
    const StepModel model = model_step(workload_->layout(), workload_->shape(), program,
                                       deferred_updates(placement, program, 0), staging);
    const PlacementProgram lp(model, room_of(placement, staging), costs);
    const auto best = lp.round_exactly(optimum_solves);
    if (!best.empty()) out.optimum = lp.cost_of(best);
  }
  return out;
}

std::optional<PlanCase::Time> PlanCase::time(bool others) const {
  const auto policy = make_policy("auto");
  const PlanInput in = input(*policy, kMean);
  const PlanResult r = make_plan(in);
  if (!r.fits) return std::nullopt;
  Time out{r.prediction.step_seconds, bound_of(in).step_seconds, true, r.plan.policy};
  if (!others) return out;
  const double step = make_plan(input(*policy)).prediction.step_seconds;
  for (const PolicyInfo& p : policies()) {
    const auto other = make_policy(p.name);
    const PlanResult o = make_plan(input(*other));
    if (o.fits && o.prediction.step_seconds < step * (1 - 1e-9)) out.best = false;
  }
  return out;
}

}  // namespace strata
