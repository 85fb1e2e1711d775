// Random cases for `verify`, and what they cover.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "runtime/random.hpp"
#include "train/verify.hpp"

namespace strata {
namespace {

class RandomTokens final : public TokenSource {
 public:
  static constexpr uint64_t kTokens = 1 << 16;

  RandomTokens(uint32_t vocabulary, uint32_t seq, uint64_t seed)
      : TokenSource(WindowSampler(kTokens, seq, seed)), vocabulary_(vocabulary), seed_(seed) {}

  uint64_t hash() const noexcept override { return seed_ * 0x9e3779b97f4a7c15u + vocabulary_; }

 private:
  int32_t token(uint64_t i) const {
    return static_cast<int32_t>(
        random_below(seed_, random_stream(RandomUse::verify), i, vocabulary_));
  }
  void read_window(uint64_t start, int32_t* tokens, int32_t* targets) override {
    for (uint32_t i = 0; i < seq(); ++i) {
      tokens[i] = token(start + i);
      targets[i] = token(start + i + 1);
    }
  }

  uint32_t vocabulary_;
  uint64_t seed_;
};

/// Draws of one case, in a fixed order.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t index)
      : seed_(seed), stream_(random_stream(RandomUse::verify, static_cast<uint32_t>(index + 1))) {}
  uint64_t below(uint64_t n) { return random_below(seed_, stream_, next_++, n); }
  double unit() { return random_unit(seed_, stream_, next_++); }
  template <size_t N>
  auto pick(const auto(&from)[N]) {
    return from[below(N)];
  }

 private:
  uint64_t seed_, stream_, next_ = 0;
};

constexpr const char* kModels[] = {"gpt2:L2,D32,H2,V96,T16", "gpt2:L3,D48,H3,V64,T24",
                                   "gpt2:L4,D64,H4,V256,T32"};
constexpr uint32_t kSeqs[] = {12, 24, 32};

/// Between low and high, log-uniformly.
size_t log_uniform(size_t low, size_t high, double u) {
  if (high <= low) return low;
  const double l = std::log(static_cast<double>(low)), h = std::log(static_cast<double>(high));
  return std::clamp(static_cast<size_t>(std::exp(l + u * (h - l))), low, high);
}

}  // namespace

std::unique_ptr<TokenSource> random_tokens(uint32_t vocabulary, uint32_t seq, uint64_t seed) {
  return std::make_unique<RandomTokens>(vocabulary, seq, seed);
}

VerifyCase random_case(uint64_t seed, uint64_t index,
                       const std::vector<std::string>& nvme_directories) {
  Draws draw(seed, index);
  VerifyCase c;
  SessionConfig& s = c.session;
  const uint64_t model = draw.below(3);
  s.model = kModels[model];
  s.shape = {static_cast<uint32_t>(1 + draw.below(3)), kSeqs[model],
             static_cast<uint32_t>(1 + draw.below(4))};
  s.dtype = draw.below(2) == 0 ? DType::f32 : DType::bf16;
  constexpr uint32_t kRecompute[] = {0, kAllBlocks, 1};
  s.recompute = draw.pick(kRecompute);
  s.order = static_cast<MicroBatchOrder>(draw.below(2));
  s.optimizer.kind = draw.below(3) == 0 ? OptimizerKind::sgd : OptimizerKind::adamw;
  s.optimizer.momentum = draw.below(2) == 0 ? 0.0 : 0.9;
  constexpr double kClips[] = {0.0, 0.05, 1.0, 1e6};
  s.clip = draw.pick(kClips);
  s.seed = draw.below(1 << 30);
  constexpr OptimizerOverlap kOverlaps[] = {
      OptimizerOverlap::automatic, OptimizerOverlap::automatic,   OptimizerOverlap::none,
      OptimizerOverlap::forward,   OptimizerOverlap::speculative, OptimizerOverlap::speculative};
  s.overlap = draw.pick(kOverlaps);
  if (s.clip <= 0 && s.overlap == OptimizerOverlap::speculative) {
    s.overlap = OptimizerOverlap::backward;
  }
  s.threads = static_cast<uint32_t>(1 + draw.below(3));
  c.reference_threads = static_cast<uint32_t>(1 + draw.below(3));
  c.evaluate = draw.below(2) == 1;
  c.delay_seed = draw.below(3) == 0 ? 0 : 1 + draw.below(1 << 30);
  c.schedule = {s.optimizer.kind == OptimizerKind::sgd ? 1e-2 : 1e-3, 1e-4, 2, 4};
  constexpr const char* kPolicies[] = {"auto",
                                       "auto",
                                       "auto:defer=0.5,staging=4",
                                       "auto:defer=0.2,staging=8",
                                       "lru",
                                       "lru",
                                       "lru",
                                       "belady",
                                       "belady",
                                       "belady",
                                       "static:w=0,o=0",
                                       "static:w=0.5,o=0.25",
                                       "static:w=0.25,o=0.5",
                                       "gemini",
                                       "gemini:n=2"};
  s.policy = draw.pick(kPolicies);
  if (draw.below(2) == 1) {
    // From a fraction of the largest layer matrix, which then spans chunks, to several matrices.
    constexpr uint64_t kBytes[] = {8 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10};
    s.chunk_bytes = kBytes[draw.below(model == 0 ? 3 : model == 1 ? 5 : 6)];
  }
  // Budgets: first what the policy needs with a host that holds all, then less of either.
  const Workload workload(s);
  Budgets wide;
  wide.bytes = {size_t{1} << 40, size_t{1} << 40, 0};
  PlanResult plan = workload.plan(wide);
  const size_t resident = workload.state_bytes() + plan.plan.need.non_model_bytes;
  c.budgets.bytes[1] = plan.minimum[1];
  if (workload.policy().streams() && draw.below(3) == 0) {
    // A host too small for everything: some chunks must live on the device.
    c.budgets.bytes[1] =
        static_cast<size_t>(static_cast<double>(plan.minimum[1]) * (0.4 + 0.6 * draw.unit()));
    wide.bytes[1] = c.budgets.bytes[1];
    plan = workload.plan(wide);
  }
  const double u = draw.unit();
  if (!nvme_directories.empty() && draw.below(8) != 0) {
    constexpr double kHostShares[] = {0, 0, 0.2, 0.5, 0.9};
    const bool two_versions = s.overlap == OptimizerOverlap::speculative;
    c.budgets.bytes[2] = workload.state_bytes() * (two_versions ? 2 : 1);
    c.budgets.bytes[1] =
        static_cast<size_t>(static_cast<double>(workload.state_bytes()) * draw.pick(kHostShares));
    wide.bytes = {size_t{1} << 40, c.budgets.bytes[1], c.budgets.bytes[2]};
    plan = workload.plan(wide);
    const uint64_t count = 1 + draw.below(nvme_directories.size());
    c.nvme.directories.assign(nvme_directories.begin(),
                              nvme_directories.begin() + static_cast<long>(count));
    constexpr const char* kEngines[] = {"auto", "threads"};
    c.nvme.engine = draw.pick(kEngines);
  }
  if (draw.below(3) == 0) {
    c.checkpoint_after = 2 + draw.below(c.schedule.steps - 2);  // peaks come with the second
    c.resumed = s;
    c.resumed.policy = draw.pick(kPolicies);
    c.resumed.threads = static_cast<uint32_t>(1 + draw.below(3));
    c.resumed.recompute = draw.pick(kRecompute);
    c.resumed.order = static_cast<MicroBatchOrder>(draw.below(2));
    c.resumed.chunk_bytes = draw.below(2) == 1 ? 0 : 48 << 10;
  }
  c.budgets.bytes[0] = index % 2 == 0 ? plan.minimum[0] : log_uniform(plan.minimum[0], resident, u);
  return c;
}

std::string describe(const VerifyCase& c) {
  const SessionConfig& s = c.session;
  const std::string recompute = s.recompute == 0            ? "none"
                                : s.recompute == kAllBlocks ? "block"
                                                            : std::to_string(s.recompute);
  char text[384];
  std::snprintf(
      text, sizeof text,
      "%s %s batch %u accum %u%s clip %g %s%s overlap %s policy %s chunk %llu threads %u device "
      "%zu "
      "host %zu nvme %zu recompute %s delay seed %llu%s",
      s.model.c_str(), name_of(s.dtype), s.shape.batch, s.shape.micro_batches,
      s.order == MicroBatchOrder::vertical ? " vertical" : "", s.clip,
      s.optimizer.kind == OptimizerKind::adamw ? "adamw" : "sgd",
      s.optimizer.kind == OptimizerKind::sgd && s.optimizer.momentum > 0 ? " momentum" : "",
      name_of(s.overlap), s.policy.c_str(), static_cast<unsigned long long>(s.chunk_bytes),
      s.threads, c.budgets.bytes[0], c.budgets.bytes[1], c.budgets.bytes[2], recompute.c_str(),
      static_cast<unsigned long long>(c.delay_seed), c.evaluate ? " evaluating" : "");
  std::string out = text;
  if (c.checkpoint_after != 0) {
    out += " resumed after " + std::to_string(c.checkpoint_after) + " with policy " +
           c.resumed.policy + " chunk " + std::to_string(c.resumed.chunk_bytes) + " threads " +
           std::to_string(c.resumed.threads);
  }
  return out;
}

void count_coverage(Coverage& coverage, const VerifyCase& c, const VerifyOutcome& o) {
  const SessionConfig& s = c.session;
  const auto count = [&](const std::string& key) { ++coverage[key]; };
  count(std::string("dtype ") + name_of(s.dtype));
  count("accum " + std::to_string(s.shape.micro_batches));
  count(s.clip <= 0 ? "clip off" : o.clipped ? "clip active" : "clip inactive");
  count(s.optimizer.kind == OptimizerKind::adamw ? "optimizer adamw" : "optimizer sgd");
  count("threads " + std::to_string(s.threads));
  count(std::string("overlap ") + name_of(s.overlap));
  if (o.stats.speculated_updates != 0) count("speculation");
  if (o.stats.undone_updates != 0) count("speculation undone");
  count("policy " + s.policy.substr(0, s.policy.find(':')));
  count(s.recompute == 0            ? "recompute none"
        : s.recompute == kAllBlocks ? "recompute block"
                                    : "recompute some");
  if (s.shape.micro_batches > 1) {
    count(s.order == MicroBatchOrder::vertical ? "schedule vertical" : "schedule horizontal");
  }
  count(c.delay_seed != 0 ? "delays random" : "delays none");
  if (c.evaluate) count("evaluation between steps");
  if (c.checkpoint_after != 0) count("checkpoint between steps");
  if (o.stats.weight_fetches != 0) count("weights moved");
  if (o.stats.demand_misses != 0) count("demand misses");
  if (o.stats.nvme_read_bytes != 0) {
    count("nvme engine " + c.nvme.engine);
    count("nvme directories " + std::to_string(c.nvme.directories.size()));
  }
  if (o.peaks == o.predicted_peaks) count("peaks as predicted");
}

}  // namespace strata
