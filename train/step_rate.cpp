#include "train/step_rate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/errors.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

SessionConfig resident(SessionConfig c) {
  c.policy = "resident";
  c.chunk_bytes = 0;
  c.evaluates = false;
  return c;
}

}  // namespace

StepRate::StepRate(SessionConfig config, double lr)
    : workload_(std::make_unique<Workload>(resident(std::move(config)))),
      lr_(lr),
      random_(workload_->config().seed, workload_->model().vocabulary(),
              workload_->config().shape.rows() * workload_->config().shape.micro_batches) {
  // No budget but the machine itself, so that a model too large for it says so.
  Budgets budgets;
  budgets.bytes.fill(available_host_memory());
  session_ = std::make_unique<Session>(*workload_, workload_->plan(budgets), budgets);
  last_seconds_ = run_steps(1);
  last_seconds_ = run_steps(1);  // the first one touched its memory for the first time
}

double StepRate::run_steps(uint32_t count) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (uint32_t i = 0; i < count; ++i) {
    const TokenBatch batch = random_.batch(steps_);
    StepParams params;
    params.step = steps_++;
    params.lr = lr_;
    params.target_tokens = static_cast<double>(tokens());
    session_->step(batch, params);
  }
  session_->flush();  // updates may still wait for the next step's first use
  session_->backend().drain();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!session_->result(0).applied) {
    throw NonFinite("bench step: step " + std::to_string(steps_) +
                    " of the measurement on random tokens was not finite, so it was skipped and "
                    "its time means nothing; try a smaller --lr");
  }
  return seconds / count;
}

double StepRate::measure(double least_seconds) {
  constexpr double kShortStep = 0.5;  // seconds
  if (last_seconds_ < kShortStep) last_seconds_ = run_steps(1);
  const double count = std::ceil(least_seconds / std::max(last_seconds_, 1e-6));
  last_seconds_ = run_steps(static_cast<uint32_t>(std::clamp(count, 1.0, 1e6)));
  return last_seconds_;
}

}  // namespace strata
