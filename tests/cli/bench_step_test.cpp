#include "cli/bench_step.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "cli/cpu_time.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

BenchWorkerConfig some_config() {
  BenchWorkerConfig c;
  c.arm = BenchArm::pool;
  c.session.model = "gpt2:L2,D4,H1,V7,T9";
  c.session.shape = {3, 5, 2};
  c.session.dtype = DType::bf16;
  c.session.recompute = 3;
  c.session.optimizer = {OptimizerKind::sgd, 0.5, 0.25, 1e-7, 0.3, 0.9};
  c.session.clip = 0.1;
  c.session.seed = 0xffffffffffffffffu;
  c.session.threads = 3;
  c.lr = 1.0 / 3;
  c.sample_seconds = 0.7;
  return c;
}

TEST(BenchWorkerConfig, SurvivesTheWayToAWorker) {
  const BenchWorkerConfig a = some_config();
  const BenchWorkerConfig b = BenchWorkerConfig::from_json(a.to_json());
  EXPECT_EQ(b.arm, a.arm);
  EXPECT_EQ(b.session.model, a.session.model);
  EXPECT_EQ(b.session.shape.batch, 3u);
  EXPECT_EQ(b.session.shape.seq, 5u);
  EXPECT_EQ(b.session.shape.micro_batches, 2u);
  EXPECT_EQ(b.session.dtype, DType::bf16);
  EXPECT_EQ(b.session.recompute, 3u);
  const OptimizerConfig& o = b.session.optimizer;
  EXPECT_EQ(o.kind, OptimizerKind::sgd);
  EXPECT_EQ(std::tuple(o.beta1, o.beta2, o.eps, o.weight_decay, o.momentum),
            std::tuple(0.5, 0.25, 1e-7, 0.3, 0.9));
  EXPECT_EQ(b.session.clip, 0.1);
  EXPECT_EQ(b.session.seed, 0xffffffffffffffffu);
  EXPECT_EQ(b.session.threads, 3u);
  EXPECT_EQ(b.lr, 1.0 / 3);
  EXPECT_EQ(b.sample_seconds, 0.7);
  EXPECT_THROW(BenchWorkerConfig::from_json("{}"), StateError);
  EXPECT_THROW(BenchWorkerConfig::from_json("{"), StateError);
}

class CountingTask final : public BenchTask {
 public:
  BenchRates measure() override {
    if (++calls_ == 3) throw NonFinite("the third one fails \xff");
    return {100.0 * calls_, 0};
  }
  std::string about() const override { return "counts"; }

 private:
  int calls_ = 0;
};

/// A worker in a thread of this process.
struct Served {
  LineChannel parent;
  int exit_code = -1;
  std::thread thread;

  explicit Served(std::function<std::unique_ptr<BenchTask>()> make) {
    auto [mine, theirs] = LineChannel::make_pair();
    parent = std::move(mine);
    thread = std::thread([this, make, channel = std::move(theirs)]() mutable {
      exit_code = serve_bench(channel, make);
    });
  }
  std::string receive() { return parent.receive(std::chrono::seconds(30)).value_or("gone"); }
  int end() {
    parent.close();
    thread.join();
    return exit_code;
  }
};

TEST(ServeBench, MeasuresOnRequestUntilTheParentIsGone) {
  Served s([] { return std::make_unique<CountingTask>(); });
  EXPECT_EQ(s.receive(), R"({"about":"counts"})");
  for (const double rate : {100.0, 200.0}) {
    s.parent.send(kWorkerGo);
    const BenchSample sample = BenchSample::from_json(s.receive());
    EXPECT_EQ(sample.rates.flops_per_second, rate);
    EXPECT_GE(sample.wall_seconds, 0);
    EXPECT_GT(sample.idle_seconds, 0);
  }
  EXPECT_EQ(s.end(), 0);
}

TEST(ServeBench, TellsTheParentWhatFailedAndWithWhichExitCode) {
  Served s([] { return std::make_unique<CountingTask>(); });
  s.receive();
  for (int i = 0; i < 3; ++i) s.parent.send(kWorkerGo);
  s.receive();
  s.receive();
  try {
    BenchSample::from_json(s.receive());
    FAIL() << "the third sample failed";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("the third one fails"));
    EXPECT_EQ(e.exit_code(), 6);
  }
  EXPECT_EQ(s.end(), 6);

  Served never([]() -> std::unique_ptr<BenchTask> { throw std::runtime_error("no task"); });
  EXPECT_EQ(never.receive(), bench_error_json("no task", 1));
  EXPECT_EQ(never.end(), 1);
}

TEST(ServeBench, AnUnknownRequestEndsIt) {
  Served s([] { return std::make_unique<CountingTask>(); });
  s.receive();
  s.parent.send("stop");
  EXPECT_NE(s.receive().find("'stop' is not a request"), std::string::npos);
  EXPECT_EQ(s.end(), 1);
}

/// The worker's arguments come after the script's name, $0.
std::vector<std::string> shell(const std::string& script) {
  return {"/bin/sh", "-c", script, "sh"};
}

TEST(BenchWorker, StartsWithItsConfigurationAndGivesSamples) {
  BenchSample sample;
  sample.rates = {5e9, 6e9};
  sample.others_share = 0.25;
  sample.idle_cpu_seconds = 0.125;
  const BenchWorkerConfig config = some_config();
  BenchWorker w(config, shell("[ \"$1\" = __worker ] && [ \"$2\" = '" + config.to_json() +
                              "' ] || exit 9; echo '{\"about\":\"me\"}' >&3; "
                              "read -r go <&3; [ \"$go\" = go ] && echo '" +
                              sample.to_json() + "' >&3"));
  EXPECT_EQ(w.about(), "me");
  const BenchSample got = w.measure();
  EXPECT_EQ(got.rates.flops_per_second, 5e9);
  EXPECT_EQ(got.rates.packed_flops_per_second, 6e9);
  EXPECT_EQ(got.others_share, 0.25);
  EXPECT_EQ(got.idle_cpu_seconds, 0.125);
  EXPECT_THROW(w.measure(), IoError);  // it has ended
}

TEST(BenchWorker, PassesOnTheErrorOfTheWorker) {
  const std::string line = bench_error_json("too large by 5 bytes", 3);
  try {
    BenchWorker w(some_config(), shell("echo '" + line + "' >&3"));
    FAIL() << "the worker could not start";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "too large by 5 bytes");
    EXPECT_EQ(e.exit_code(), 3);
  }
  EXPECT_THROW(BenchWorker(some_config(), shell("echo hello >&3")), StateError);
}

TEST(BenchWorker, SamplesTogetherAreAllTheirWorkOverAllTheirTime) {
  const BenchSample fast{{8, 16}, 1, 2, 0.25, 3, 0.5};
  const BenchSample slow{{2, 4}, 2, 4, std::nullopt, 0, 0};
  const BenchSample all = together(std::array{fast, slow});
  EXPECT_EQ(all.rates.flops_per_second, 4);
  EXPECT_EQ(all.rates.packed_flops_per_second, 8);
  EXPECT_EQ(all.wall_seconds, 3);
  EXPECT_EQ(all.cpu_seconds, 6);
  EXPECT_EQ(all.others_share, 0.25);
  EXPECT_EQ(all.idle_seconds, 3);
  EXPECT_EQ(all.idle_cpu_seconds, 0.5);
}

BenchPair pair_of(double step, double team, double pool) {
  BenchPair p;
  p.step.rates = {step, 0};
  p.team.rates = {team, 2 * team};
  p.pool.rates = {pool, 3 * pool};
  return p;
}

TEST(BenchSummary, ComparesWithinPairsToTheArmThatIsFasterOverall) {
  std::vector<BenchPair> pairs = {pair_of(8, 10, 9), pair_of(4, 5, 8), pair_of(9, 12, 11)};
  pairs[1].pool.others_share = 0.5;
  pairs[2].step.others_share = 0.25;
  pairs[1].team.idle_seconds = 3;
  pairs[2].team.idle_seconds = 1;
  pairs[2].team.idle_cpu_seconds = 1;
  pairs[2].pool.idle_seconds = 8;
  pairs[2].pool.idle_cpu_seconds = 1;
  const BenchSummary r = summarize(pairs);
  EXPECT_EQ(r.flops_per_second, 8);
  EXPECT_EQ(r.team_flops_per_second, 10);
  EXPECT_EQ(r.pool_flops_per_second, 9);
  EXPECT_TRUE(r.team_is_faster);
  EXPECT_EQ(r.gemm_flops_per_second, 10);
  EXPECT_EQ(r.fractions, (std::vector<double>{0.8, 0.8, 0.75}));
  EXPECT_EQ(r.fraction, 0.8);
  EXPECT_EQ(r.packed_gemm_flops_per_second, 27);  // of the pool, which is faster so
  EXPECT_EQ(r.packed_fraction, 9.0 / 33);
  EXPECT_EQ(r.others_share, 0.5);
  EXPECT_EQ(r.idle_cpus, 0.25);

  const BenchSummary other = summarize(std::vector{pair_of(3, 3, 4), pair_of(1, 3, 4)});
  EXPECT_FALSE(other.team_is_faster);
  EXPECT_EQ(other.gemm_flops_per_second, 4);
  EXPECT_EQ(other.fraction, 0.5);
}

TEST(CpuTimes, AreReadFromTheFirstLine) {
  const auto t = parse_cpu_times("cpu  100 20 30 1000 50 6 4 40 7 8\ncpu0 1 2 3\n", 100);
  ASSERT_TRUE(t);
  EXPECT_DOUBLE_EQ(t->busy, 2.0);
  EXPECT_DOUBLE_EQ(t->total, 12.5);
  for (const char* bad : {"", "cpu", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8", "cpu  a b"}) {
    EXPECT_FALSE(parse_cpu_times(bad, 100)) << bad;
  }
}

TEST(CpuTimes, OthersGetWhatIsNotOurs) {
  EXPECT_DOUBLE_EQ(others_share(3, 4, 2), 0.25);
  EXPECT_DOUBLE_EQ(others_share(1.99, 4, 2), 0);  // ticks are coarse
  EXPECT_DOUBLE_EQ(others_share(0, 0, 0), 0);
}

TEST(CpuTimes, ChildrenThatEndedAreOurs) {
  const double before = children_cpu_seconds();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const double start = process_cpu_seconds();
    while (process_cpu_seconds() < start + 0.05) {
    }
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_GE(children_cpu_seconds(), before + 0.04);
}

TEST(CpuTimes, NoiseIsNamedFromABoundOn) {
  EXPECT_EQ(noise_warning(kNoisyShare), "");
  EXPECT_NE(noise_warning(0.124).find("took up to 12 % of the CPUs"), std::string::npos);
}

}  // namespace
}  // namespace strata
