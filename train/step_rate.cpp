#include "train/step_rate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "models/gpt2_config.hpp"
#include "runtime/errors.hpp"
#include "runtime/memory.hpp"
#include "runtime/random.hpp"

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
    : workload_(std::make_unique<Workload>(resident(std::move(config)))), lr_(lr) {
  const SessionConfig& c = workload_->config();
  tokens_ = c.shape.rows() * c.shape.micro_batches;
  const uint32_t vocabulary = parse_gpt2(c.model).vocabulary;
  for (size_t b = 0; b < batches_.size(); ++b) {
    const auto draw = [&](uint32_t plane) {
      const uint64_t stream = random_stream(RandomUse::data, static_cast<uint32_t>(2 * b) + plane);
      std::vector<int32_t> ids(tokens_);
      for (uint64_t i = 0; i < tokens_; ++i) {
        ids[i] = static_cast<int32_t>(random_below(c.seed, stream, i, vocabulary));
      }
      return ids;
    };
    batches_[b] = {draw(0), draw(1)};
  }
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
    const Batch& b = batches_[steps_ % batches_.size()];
    StepParams params;
    params.step = steps_++;
    params.lr = lr_;
    params.target_tokens = static_cast<double>(tokens_);
    session_->step({b.tokens.data(), b.targets.data()}, params);
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
