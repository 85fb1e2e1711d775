#include "cli/bench_serve.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "cli/cpu_time.hpp"
#include "models/host/gemm_rate.hpp"
#include "runtime/errors.hpp"
#include "train/step_rate.hpp"

namespace strata {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

class StepTask final : public BenchTask {
 public:
  explicit StepTask(const BenchWorkerConfig& c)
      : rate_(c.session, c.lr),
        flops_(host::training_flops(parse_gpt2(c.session.model), rate_.tokens())),
        seconds_(c.sample_seconds) {}

  BenchRates measure() override { return {flops_ / rate_.measure(seconds_), 0}; }
  std::string about() const override {
    return fmt::format("resident training, {} bytes of weights, gradients and records",
                       rate_.workload().state_bytes());
  }

 private:
  StepRate rate_;
  double flops_, seconds_;
};

class GemmTask final : public BenchTask {
 public:
  explicit GemmTask(const BenchWorkerConfig& c) : seconds_(c.sample_seconds) {
    constexpr uint32_t kRounds = 3;
    const SessionConfig& s = c.session;
    const auto make =
        c.arm == BenchArm::team ? host::make_team_gemm_rate : host::make_pool_gemm_rate;
    rate_ = make(host::training_products(parse_gpt2(s.model), s.shape.rows()), s.dtype, s.threads);
    rate_->calibrate(kRounds);
  }

  BenchRates measure() override {
    const auto [weights, operands] = rate_->measure(seconds_);
    return {weights, operands};
  }
  std::string about() const override {
    std::string text;
    for (size_t i = 0; i < rate_->products().size(); ++i) {
      const host::GemmProduct& p = rate_->products()[i];
      const auto rate = [&](const host::GemmRate::Choice& c) {
        return fmt::format("{:.0f} ({})", p.flops() / c.seconds * 1e-9, name_of(c.layout));
      };
      const auto& weights = rate_->choices(host::GemmPacking::weights)[i];
      const auto& operands = rate_->choices(host::GemmPacking::operands)[i];
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", p.name, rate(weights));
      if (operands.layout != weights.layout) text += " or " + rate(operands);
    }
    return "GFLOP/s " + text;
  }

 private:
  std::unique_ptr<host::GemmRate> rate_;
  double seconds_;
};

std::unique_ptr<BenchTask> make_task(const BenchWorkerConfig& c) {
  if (c.arm == BenchArm::step) return std::make_unique<StepTask>(c);
  return std::make_unique<GemmTask>(c);
}

/// A team may spin for a while after its work; the next arm must not pay for that.
void wait_until_idle() {
  constexpr auto kLook = std::chrono::milliseconds(20);
  constexpr double kIdle = 0.05;     // CPUs
  constexpr double kPatience = 3.0;  // seconds
  const auto start = Clock::now();
  for (;;) {
    const auto look = Clock::now();
    const double cpu = process_cpu_seconds();
    std::this_thread::sleep_for(kLook);
    if (process_cpu_seconds() - cpu < kIdle * seconds_since(look)) return;
    if (seconds_since(start) > kPatience) {
      throw StateError(
          "threads of this worker keep spinning after their work, which would slow the others "
          "down");
    }
  }
}

BenchSample take_sample(BenchTask& task) {
  BenchSample s;
  const auto start = Clock::now();
  const CpuWatch watch;
  s.rates = task.measure();
  s.others_share = watch.others_share();
  s.cpu_seconds = watch.own_seconds();
  s.wall_seconds = seconds_since(start);
  return s;
}

}  // namespace

int serve_bench(LineChannel& channel, const std::function<std::unique_ptr<BenchTask>()>& make) {
  const auto fail = [&](const std::string& what, int code) {
    channel.send(bench_error_json(what, code));
    return code;
  };
  try {
    const auto task = make();
    wait_until_idle();
    std::string answer = nlohmann::json{{"about", task->about()}}.dump();
    for (;;) {
      const auto idle_start = Clock::now();
      const double idle_cpu = process_cpu_seconds();
      if (!channel.send(answer)) return 0;
      const auto request = channel.receive();
      if (!request) return 0;
      if (*request != kWorkerGo) {
        throw StateError(fmt::format("bench worker: '{}' is not a request", *request));
      }
      const double idle_seconds = seconds_since(idle_start);
      const double idle_cpu_seconds = process_cpu_seconds() - idle_cpu;
      BenchSample sample = take_sample(*task);
      sample.idle_seconds = idle_seconds;
      sample.idle_cpu_seconds = idle_cpu_seconds;
      answer = sample.to_json();
      wait_until_idle();
    }
  } catch (const Error& e) {
    return fail(e.what(), e.exit_code());
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
}

std::optional<int> worker_main(int argc, char** argv) {
  if (argc != 3 || argv[1] != kWorkerVerb) return std::nullopt;
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(WorkerProcess::kChannel, SOL_SOCKET, SO_TYPE, &type, &size) != 0) {
    fmt::print(stderr, "strata: {} is for 'strata bench step' alone\n", kWorkerVerb);
    return 2;
  }
  LineChannel channel(WorkerProcess::kChannel);
  const std::string config = argv[2];
  return serve_bench(channel, [&] { return make_task(BenchWorkerConfig::from_json(config)); });
}

}  // namespace strata
