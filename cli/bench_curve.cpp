#include "cli/bench_curve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/cpu_time.hpp"
#include "cli/fio.hpp"
#include "cli/offload_bench.hpp"
#include "cli/output.hpp"
#include "runtime/errors.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

/// Batches that the kernels' time is known from before there is a plan.
constexpr uint32_t kSmallBatch = 1, kLargeBatch = 8;
constexpr uint32_t kMostSequences = 1u << 20;

/// A policy at one batch, ready to run.
struct Arm {
  Arm(const SessionConfig& c, const BenchCurveArgs& a)
      : workload(c), budgets(offload_budgets(workload, a.model_data.front(), true)) {
    PlanInput in = workload.plan_input(budgets);
    in.simulation = {kWarmUpSteps + 1, a.steps};
    plan = make_plan(in);
  }
  void start(const BenchCurveArgs& a) {
    RunOptions run;
    run.nvme.directories = a.nvme;
    run.nvme.checksums = !a.nvme_unchecked;
    run.nvme.bytes_per_second = static_cast<double>(a.nvme_rate);
    session = std::make_unique<TimedSession>(workload, plan, budgets, run, a.optimizer.lr);
  }
  uint64_t units_read() const {
    return plan.prediction.nvme_read_bytes / workload.shape().unit_bytes();
  }
  uint64_t units_written() const {
    return plan.prediction.nvme_write_bytes / workload.shape().unit_bytes();
  }

  Workload workload;
  Budgets budgets;
  PlanResult plan;
  std::unique_ptr<TimedSession> session;
};

/// Kernels and a whole session with everything on the device.
struct Reference {
  Reference(const SessionConfig& c, double lr) : workload(c), kernels(workload, lr) {}
  void start(double lr) {
    Budgets budgets;
    budgets.bytes.fill(available_host_memory());
    session =
        std::make_unique<TimedSession>(workload, workload.plan(budgets), budgets, RunOptions{}, lr);
  }

  Workload workload;
  TimedKernels kernels;
  std::unique_ptr<TimedSession> session;
};

/// The batch for a wanted x, and the x expected of it.
struct Choice {
  double wanted;
  uint32_t batch;
  double expected;

  double distance() const { return std::abs(std::log(wanted / expected)); }
};

class Curve {
 public:
  Curve(const BenchCurveArgs& a, Output& out)
      : a_(a), out_(out), config_(session_config(a)), fio_(has_fio() && a.nvme.size() == 1) {}

  std::vector<CurvePoint> measure();

 private:
  SessionConfig config(uint32_t batch, const std::string& policy) const;
  void probe();
  Choice choose(double x) const;
  std::vector<Choice> choose_all() const;
  void measure_batch(uint32_t batch, double x);
  CurvePoint measure_arm(Reference&, Arm&);
  CurveSample round(Reference&, Arm&, bool resident_first);
  std::optional<double> fio_rate(const Arm&) const;

  const BenchCurveArgs& a_;
  Output& out_;
  SessionConfig config_;
  bool fio_;
  std::unique_ptr<NvmeTransfers> transfers_;
  VirtualRates links_;
  KernelLine line_;
  DirectStep::Times small_;  // kernels of the smallest batch
  std::vector<CurvePoint> points_;
};

SessionConfig Curve::config(uint32_t batch, const std::string& policy) const {
  SessionConfig c = config_;
  c.shape.batch = batch;
  c.policy = policy;
  return c;
}

/// What batches are chosen by: links, and the kernels of two batches.
void Curve::probe() {
  const auto kernels = [&](uint32_t batch) {
    Reference r(config(batch, "resident"), a_.optimizer.lr);
    if (!transfers_) {
      transfers_ = std::make_unique<NvmeTransfers>(probe_options(a_, r.workload));
      measure_drive(links_, *transfers_, a_.seconds);
    }
    return r.kernels.run(half_steps(a_), a_.seconds);
  };
  small_ = kernels(kSmallBatch);
  const DirectStep::Times large = kernels(kLargeBatch);
  // The optimizer's time does not depend on the batch.
  line_.per_sequence = std::max(large.compute - small_.compute, 1e-9) / (kLargeBatch - kSmallBatch);
  line_.fixed = small_.sum() - kSmallBatch * line_.per_sequence;
  out_.text(fmt::format(
      "Kernels of {} sequence: {:.4f} s, of {}: {:.4f} s, and {:.4f} s for norm and update. Drive: "
      "read {:.2f}, write {:.2f}, both {:.2f} GB/s, {} at a time{}",
      kSmallBatch, small_.compute, kLargeBatch, large.compute, small_.norm + small_.update,
      links_.nvme_read_bytes_per_second * 1e-9, links_.nvme_write_bytes_per_second * 1e-9,
      links_.nvme_mixed_bytes_per_second * 1e-9,
      format_bytes(transfers_->store().options().unit_bytes),
      std::string(a_.nvme_rate != 0 ? ", throttled" : "") +
          (a_.nvme_unchecked ? ", no checksums" : "")));
}

/// The plan depends on the batch, and the batch on the plan's transfers.
Choice Curve::choose(double x) const {
  Choice out{x, kSmallBatch, 0};
  for (int i = 0; i < 3; ++i) {
    SessionConfig c = config(out.batch, a_.policies.front());
    DirectStep::Times t = small_;
    t.compute += line_.per_sequence * (out.batch - kSmallBatch);
    c.rates = with_kernels(links_, Workload(c), t);
    const Arm arm(c, a_);
    if (!arm.plan.fits) throw DoesNotFit(describe_shortfall(arm.plan));
    const double seconds =
        transfers_->seconds_to_move(arm.units_read(), arm.units_written(), a_.seconds);
    const uint32_t next = line_.batch_for(x * seconds);
    out.expected = (line_.fixed + line_.per_sequence * next) / seconds;
    if (std::exchange(out.batch, next) == next) break;
  }
  return out;
}

std::vector<Choice> Curve::choose_all() const {
  std::vector<Choice> all;
  for (const double x : a_.x) {
    Choice c = choose(x);
    const auto same = std::ranges::find(all, c.batch, &Choice::batch);
    if (same == all.end()) {
      all.push_back(c);
      continue;
    }
    if (c.distance() < same->distance()) std::swap(c, *same);
    out_.text(
        fmt::format("x {}: the nearest is {} sequence{}, as of x {}; --nvme-rate makes a smaller x",
                    c.wanted, c.batch, c.batch == 1 ? "" : "s", same->wanted));
  }
  return all;
}

std::vector<CurvePoint> Curve::measure() {
  probe();
  for (const Choice& c : choose_all()) measure_batch(c.batch, c.wanted);
  return std::move(points_);
}

void Curve::measure_batch(uint32_t batch, double x) {
  Reference reference(config(batch, "resident"), a_.optimizer.lr);
  const DirectStep::Times kernels = reference.kernels.run(half_steps(a_), a_.seconds);
  reference.start(a_.optimizer.lr);
  CurvePoint resident;
  const size_t first = points_.size();
  for (const std::string& policy : a_.policies) {
    SessionConfig c = config(batch, policy);
    c.rates = with_kernels(links_, reference.workload, kernels);
    Arm arm(c, a_);
    if (!arm.plan.fits) {
      out_.text(fmt::format("{}: {}", policy, describe_shortfall(arm.plan)));
      continue;
    }
    arm.start(a_);
    CurvePoint p = measure_arm(reference, arm);
    p.wanted_x = x;
    out_.text(curve_line(p));
    for (CurveSample s : p.samples) {
      s.nvme = 0;
      s.step = s.resident;
      s.over_fio.reset();
      resident.samples.push_back(s);
    }
    points_.push_back(std::move(p));
  }
  if (points_.size() == first) return;
  resident.policy = "resident";
  resident.wanted_x = x;
  resident.x = points_[first].x;
  resident.tokens = points_[first].tokens;
  resident.device_bytes = reference.workload.state_bytes();
  out_.text(curve_line(resident));
  points_.push_back(std::move(resident));
}

CurvePoint Curve::measure_arm(Reference& reference, Arm& arm) {
  CurvePoint p;
  p.policy = arm.workload.policy().name();
  p.tokens = arm.workload.config().shape.rows() * arm.workload.config().shape.micro_batches;
  p.device_bytes = arm.budgets.bytes[static_cast<size_t>(Tier::device)];
  p.nvme_read_bytes = static_cast<double>(arm.plan.prediction.nvme_read_bytes);
  p.nvme_write_bytes = static_cast<double>(arm.plan.prediction.nvme_write_bytes);
  for (uint32_t i = 0; i < a_.pairs; ++i) {
    std::optional<CurveSample> best;
    for (int t = 0; t < kMostTries; ++t) {
      const CurveSample s = round(reference, arm, i % 2 == 0);
      const double others = s.others_share.value_or(0);
      if (!best || others < best->others_share.value_or(0)) best = s;
      if (others <= kNoisyShare) break;
    }
    p.samples.push_back(*best);
  }
  p.x = p.of(&CurveSample::x).median;
  return p;
}

CurveSample Curve::round(Reference& reference, Arm& arm, bool resident_first) {
  const CpuWatch watch;
  const auto drive = [&] {
    return transfers_->seconds_to_move(arm.units_read(), arm.units_written(), a_.seconds);
  };
  CurveSample s;
  const auto run_resident = [&] { s.resident = reference.session->run(a_.steps).seconds; };
  const DirectStep::Times before = reference.kernels.run(half_steps(a_), a_.seconds);
  if (resident_first) run_resident();
  const double drive_before = drive();
  const StepMeans means = arm.session->run(a_.steps);
  const double drive_after = drive();
  if (!resident_first) run_resident();
  const DirectStep::Times after = reference.kernels.run(half_steps(a_), a_.seconds);
  s.compute = (before.compute + after.compute) / 2;
  s.update = (before.norm + before.update + after.norm + after.update) / 2;
  s.nvme = (drive_before + drive_after) / 2;
  s.step = means.seconds;
  if (s.x() < 1) {
    if (const auto rate = fio_rate(arm)) s.over_fio = means.bytes() / means.seconds / *rate;
  }
  s.others_share = watch.others_share();
  return s;
}

/// Bytes a second, in the file of the probes; nothing where fio cannot say.
std::optional<double> Curve::fio_rate(const Arm& arm) const {
  const NvmeStore& store = transfers_->store();
  if (!fio_ || !store.direct() || a_.nvme_rate != 0) return std::nullopt;
  const NvmeOptions& o = store.options();
  FioJob job;
  job.file = store.file_path(0);
  job.block_bytes = std::min<uint64_t>(o.unit_bytes, o.request_bytes);
  job.file_bytes = o.units * o.unit_bytes / job.block_bytes * job.block_bytes;
  job.depth = o.depth;
  job.seconds = a_.seconds;
  job.mix = TransferMix::mixed;
  const auto reads = static_cast<double>(arm.units_read());
  const auto writes = static_cast<double>(arm.units_written());
  job.read_percent = static_cast<uint32_t>(std::lround(100 * reads / (reads + writes)));
  return run_fio(job);
}

}  // namespace

uint32_t KernelLine::batch_for(double seconds) const noexcept {
  const double batch = std::round((seconds - fixed) / per_sequence);
  return static_cast<uint32_t>(std::clamp(batch, 1.0, double{kMostSequences}));
}

int run_bench_curve(const BenchCurveArgs& given) {
  BenchCurveArgs a = given;
  if (a.policies.empty()) a.policies = {"auto", "belady", "lru"};
  const SessionConfig config = session_config(a);
  a.threads = config.threads;
  a.model.seq = config.shape.seq;
  Output out(a.json);
  out.text(fmt::format(
      "{}, {}, sequences of {} tokens, {} thread{}; device: activations, workspace and {:.0f} % of "
      "weights, remainders and records; {} round{} of {} steps",
      a.model.model, name_of(a.model.dtype), a.model.seq, a.threads, a.threads == 1 ? "" : "s",
      100 * a.model_data.front(), a.pairs, a.pairs == 1 ? "" : "s", a.steps));
  const std::vector<CurvePoint> points = Curve(a, out).measure();
  if (points.empty()) {
    throw DoesNotFit("bench curve: no policy fits these budgets; try a larger --model-data");
  }
  out.text(curve_table(points));
  double others = 0;
  for (const CurvePoint& p : points) others = std::max(others, p.others_share());
  if (others > kNoisyShare) out.text(noise_warning(others));
  out.result(curve_json(a, points));
  return 0;
}

}  // namespace strata
