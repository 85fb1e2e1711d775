#include "train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/errors.hpp"
#include "runtime/memory.hpp"

namespace strata {

Trainer::Trainer(const Workload& workload, Session& session, TokenSource& data,
                 const TrainerConfig& config)
    : workload_(workload),
      session_(session),
      data_(data),
      config_(config),
      rows_(workload.config().shape.rows()),
      step_tokens_(rows_ * workload.config().shape.micro_batches) {
  for (Batch& b : batches_) {
    b.tokens.resize(step_tokens_);
    b.targets.resize(step_tokens_);
  }
  evaluation_.tokens.resize(rows_);
  evaluation_.targets.resize(rows_);
}

Trainer::~Trainer() {
  try {
    session_.backend().drain();
  } catch (...) {  // whoever waited for a result was told
  }
}

bool Trainer::evaluates_after(uint64_t step) const {
  if (!workload_.config().evaluates) return false;
  const uint64_t done = step + 1;
  return done == config_.schedule.steps ||
         (config_.evaluate_every != 0 && done % config_.evaluate_every == 0);
}

bool Trainer::saves_after(uint64_t step) const {
  const uint64_t done = step + 1;
  return config_.save && (done == config_.schedule.steps ||
                          (config_.save_every != 0 && done % config_.save_every == 0));
}

uint64_t Trainer::run(const StepFn& on_step) {
  start_clock();
  moved();                                 // loading or initializing is no step's
  uint64_t reported = config_.first_step;  // steps
  for (uint64_t s = config_.first_step; s < config_.schedule.steps; ++s) {
    issue(s);
    if (reported < s) on_step(measure(reported++, 1));
    const bool last = s + 1 == config_.schedule.steps;
    const bool stop = !last && config_.stop && config_.stop();
    const bool evaluate = evaluates_after(s);
    const bool save = saves_after(s) || (stop && config_.save);
    if (!evaluate && !save && !stop && !last) continue;
    StepMetrics metrics = measure(s, 0);
    if (evaluate) metrics.validation_loss = validation_loss();
    session_.flush();
    add(moved(), metrics);
    on_step(metrics);
    ++reported;
    check_validation(metrics);
    check(s, session_.result(0));
    if (save) config_.save(s + 1);
    start_clock();  // the time of evaluating and saving is no step's
    if (stop) return s + 1;
  }
  return config_.schedule.steps;
}

void Trainer::check_validation(const StepMetrics& metrics) {
  if (!metrics.validation_loss || std::isfinite(*metrics.validation_loss)) return;
  throw NonFinite("the validation loss after step " + std::to_string(metrics.step) +
                  " is not finite; try a lower --lr or a longer --warmup");
}

Trainer::Clocks Trainer::Clocks::of(const Backend& backend) {
  Clocks c;
  c.now = backend.now();
  for (size_t r = 0; r < kResources; ++r) {
    c.streams[r] = backend.stream_times(static_cast<Resource>(r));
  }
  return c;
}

void Trainer::start_clock() { began_ = Clocks::of(session_.backend()); }

void Trainer::stamp(HostContext&, const Backend* backend, Batch* batch) {
  batch->finished = Clocks::of(*backend);
}

void Trainer::issue(uint64_t step) {
  const BatchShape& shape = workload_.config().shape;
  Batch& b = batches_[step % 2];
  const uint64_t samples = uint64_t{shape.batch} * shape.micro_batches;
  data_.train_batch(step * samples, static_cast<uint32_t>(samples), b.tokens.data(),
                    b.targets.data());
  session_.step({b.tokens.data(), b.targets.data()},
                {step, config_.schedule.at(step), static_cast<double>(step_tokens_)});
  b.moved = moved();
  // The stream itself takes the time: when the issuer asks, it is a good part of a step ahead.
  Stream& compute = session_.backend().stream(Resource::compute);
  launch_native<stamp, HostContext>(compute, {}, static_cast<const Backend*>(&session_.backend()),
                                    &b);
  b.written = compute.record();
}

/// Bytes moved since the last call.
Trainer::Moved Trainer::moved() {
  const EngineStats& now = session_.engine().stats();
  const Moved all = {now.h2d_bytes, now.d2h_bytes, now.nvme_read_bytes, now.nvme_write_bytes};
  Moved fresh = all;
  for (size_t i = 0; i < fresh.size(); ++i) fresh[i] -= counted_[i];
  counted_ = all;
  return fresh;
}

void Trainer::add(const Moved& moved, StepMetrics& m) {
  m.h2d_bytes += moved[0];
  m.d2h_bytes += moved[1];
  m.nvme_read_bytes += moved[2];
  m.nvme_write_bytes += moved[3];
}

void Trainer::add_times(const Clocks& from, const Clocks& to, StepMetrics& m) {
  constexpr auto kCompute = static_cast<size_t>(Resource::compute);
  const StreamTimes &a = from.streams[kCompute], &b = to.streams[kCompute];
  for (size_t r = 0; r < kResources; ++r) {
    m.stalls.on[r] = b.waited[r] - a.waited[r];
    m.stall_ms += m.stalls.on[r] * 1e3;
    const auto at_work = [r](const Clocks& c) { return c.streams[r].busy - c.streams[r].sharing; };
    m.busy[r] = std::max(0.0, at_work(to) - at_work(from));
  }
  m.stalls.sharing = b.sharing - a.sharing;
  m.stalls.issuer = b.idle - a.idle;
}

StepMetrics Trainer::measure(uint64_t step, uint32_t back) {
  const StepResult r = session_.result(back);
  check(step, r);
  const Batch& b = batches_[step % 2];
  session_.backend().wait(b.written);
  const double seconds = b.finished.now - began_.now;
  StepMetrics m;
  m.step = step + 1;
  m.loss = r.loss;
  m.lr = config_.schedule.at(step);
  m.grad_norm = r.grad_norm;
  m.tokens = (step + 1) * step_tokens_;
  m.step_ms = seconds * 1e3;
  m.tokens_per_second = static_cast<double>(step_tokens_) / seconds;
  add_times(began_, b.finished, m);
  m.used_peak_device_bytes = session_.ledger().peak(Tier::device);
  m.used_peak_host_bytes = session_.ledger().peak(Tier::host);
  m.used_peak_nvme_bytes = session_.ledger().peak(Tier::nvme);
  m.resident_bytes = resident_bytes();
  m.locked_bytes = locked_bytes();
  add(b.moved, m);
  began_ = b.finished;
  return m;
}

void Trainer::check(uint64_t step, const StepResult& r) const {
  const std::string where = " at step " + std::to_string(step + 1);
  // Without clipping a chunk is updated as soon as its own gradient is known.
  const std::string advice =
      workload_.config().clip > 0
          ? std::string("; no weight was changed by it; try a lower --lr or a longer --warmup")
          : std::string("; try a lower --lr, a longer --warmup or --clip");
  const bool loss = r.nonfinite_loss, grad = r.nonfinite_grad != UINT32_MAX;
  if (loss || grad) {
    const std::string tensor =
        grad ? "the gradient of " + workload_.layout().params()[r.nonfinite_grad].name : "";
    throw NonFinite(loss && grad ? "the loss and " + tensor + " are not finite" + where + advice
                    : loss       ? "the loss is not finite" + where + advice
                                 : tensor + " is not finite" + where + advice);
  }
  if (r.nonfinite_weight != UINT32_MAX) {
    throw NonFinite("the updated " + workload_.layout().params()[r.nonfinite_weight].name +
                    " is not finite" + where + "; try a lower --lr or a longer --warmup");
  }
}

double Trainer::validation_loss() {
  const BatchShape& shape = workload_.config().shape;
  const uint64_t batches =
      data_.sampler().validation_batches(shape.batch, config_.evaluate_batches);
  double sum = 0;
  for (uint64_t b = 0; b < batches; ++b) {
    data_.validation_batch(b * shape.batch, shape.batch, evaluation_.tokens.data(),
                           evaluation_.targets.data());
    sum += session_.evaluate({evaluation_.tokens.data(), evaluation_.targets.data()});
  }
  return sum / static_cast<double>(batches * rows_);
}

}  // namespace strata
