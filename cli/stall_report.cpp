#include "cli/stall_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/sizes.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostChunks = 5;
/// Of the step: less is not worth advice.
constexpr double kWorthAdvice = 0.02;
/// Simulated steps of each prediction, after those that lead to the steady state.
constexpr SimulationLength kPrediction{3, 3};
/// Predictions of each tier's memory; with the step itself and other tokens at most twelve.
constexpr uint32_t kMemoryPredictions = 5;

/// The causes of stalls that are there, the largest first.
std::vector<std::pair<std::string, double>> causes(const Stalls& s) {
  std::vector<std::pair<std::string, double>> list;
  for (size_t r = 0; r < kResources; ++r) {
    list.emplace_back(name_of(static_cast<Resource>(r)), s.on[r]);
  }
  list.emplace_back("sharing", s.sharing);
  list.emplace_back("issuer", s.issuer);
  std::erase_if(list, [](const auto& c) { return c.second <= 0; });
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

std::string percent(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

std::string tensors_of(const ChunkLayout& layout, ChunkId c) {
  const auto pieces = layout.in_chunk(c);
  if (pieces.empty()) return {};
  std::string text = layout.params()[pieces.front().param].name;
  if (pieces.size() > 1) text += " to " + layout.params()[pieces.back().param].name;
  return text;
}

/// Predicts variants of a planned workload, with the policy that was chosen for it.
class Predictor {
 public:
  Predictor(const Workload& workload, const PlanResult& plan, VirtualRates rates)
      : workload_(workload), plan_(plan), rates_(rates) {}

  std::optional<Prediction> with(const Workload& workload, const Budgets& budgets) const {
    const PlanInput in = workload.plan_input(budgets);
    const PlanResult r = make_plan({in.layout, in.shape, in.programs, *plan_.policy, in.updater,
                                    budgets, in.clip, rates_, kPrediction, in.objective});
    return r.fits ? std::optional(r.prediction) : std::nullopt;
  }
  std::optional<Prediction> with(const Budgets& budgets) const { return with(workload_, budgets); }

 private:
  const Workload& workload_;
  const PlanResult& plan_;
  VirtualRates rates_;
};

void advise_tier(StallReport& r, const Workload& workload, const Predictor& predictor,
                 const Budgets& budgets, Tier tier) {
  const auto advice = advise_memory(r.predicted_seconds, workload.state_bytes(), kMemoryPredictions,
                                    [&](uint64_t more) -> std::optional<double> {
                                      Budgets b = budgets;
                                      b.bytes[static_cast<size_t>(tier)] += more;
                                      const auto p = predictor.with(b);
                                      return p ? std::optional(p->step_seconds) : std::nullopt;
                                    });
  if (!advice) return;
  Advice a;
  a.kind = std::string(name_of(tier)) + "_memory";
  a.more_bytes = advice->more;
  a.step_seconds_before = r.predicted_seconds;
  a.step_seconds_after = advice->step_seconds;
  a.text = fmt::format(
      "{} more {} memory (--{}-mem {}): predicted step {:.4g} -> {:.4g} s; no amount makes it "
      "shorter than {:.4g} s",
      format_bytes(a.more_bytes), name_of(tier), name_of(tier),
      format_bytes(budgets.bytes[static_cast<size_t>(tier)] + a.more_bytes), a.step_seconds_before,
      a.step_seconds_after, advice->least_seconds);
  r.advice.push_back(std::move(a));
}

/// More sequences a step, as many as let compute hide the transfers.
void advise_tokens(StallReport& r, const Workload& workload, const Predictor& predictor,
                   const Budgets& budgets) {
  const SessionConfig& c = workload.config();
  if (r.critical_tokens <= static_cast<double>(r.tokens)) return;
  const double batch = std::ceil(r.critical_tokens / static_cast<double>(c.shape.seq) /
                                 static_cast<double>(c.shape.micro_batches));
  Advice a;
  a.kind = "tokens";
  a.text = fmt::format(
      "T*, where compute just hides the transfers, is about {:.0f} tokens a step; "
      "this run has {}",
      r.critical_tokens, r.tokens);
  if (batch < 1 << 20) {
    SessionConfig more = c;
    more.shape.batch = static_cast<uint32_t>(batch);
    const auto p = predictor.with(Workload(more), budgets);
    const auto rate = [](double tokens, double seconds) { return tokens / seconds; };
    if (p) {
      a.step_seconds_before = r.predicted_seconds;
      a.step_seconds_after = p->step_seconds;
      a.text +=
          fmt::format(": with --batch {:.0f} predicted {:.0f} tokens/s, now predicted {:.0f}",
                      batch, rate(batch * c.shape.seq * c.shape.micro_batches, p->step_seconds),
                      rate(static_cast<double>(r.tokens), r.predicted_seconds));
    } else {
      a.text += fmt::format("; --batch {:.0f} does not fit these budgets", batch);
    }
  }
  r.advice.push_back(std::move(a));
}

}  // namespace

void StepMeter::add(const StepMetrics& m) {
  if (seen_++ == 0) return;
  ++steps_;
  sum_.seconds += m.step_ms / 1e3;
  for (size_t r = 0; r < kResources; ++r) sum_.stalls.on[r] += m.stalls.on[r];
  sum_.stalls.sharing += m.stalls.sharing;
  sum_.stalls.issuer += m.stalls.issuer;
  if (m.validation_loss) return;
  ++moving_steps_;
  for (size_t r = 0; r < kResources; ++r) sum_.busy[r] += m.busy[r];
  sum_.h2d_bytes += m.h2d_bytes;
  sum_.d2h_bytes += m.d2h_bytes;
  sum_.nvme_read_bytes += m.nvme_read_bytes;
  sum_.nvme_write_bytes += m.nvme_write_bytes;
}

MeasuredStep StepMeter::mean() const {
  if (steps_ == 0) throw StateError("no step was measured");
  MeasuredStep m = sum_;
  const auto n = static_cast<double>(steps_);
  for (double* x : {&m.seconds, &m.stalls.sharing, &m.stalls.issuer}) *x /= n;
  const uint64_t moving = std::max<uint64_t>(1, moving_steps_);
  for (size_t r = 0; r < kResources; ++r) {
    m.stalls.on[r] /= n;
    m.busy[r] /= static_cast<double>(moving);
  }
  for (uint64_t* x : {&m.h2d_bytes, &m.d2h_bytes, &m.nvme_read_bytes, &m.nvme_write_bytes}) {
    *x /= moving;
  }
  return m;
}

StallReport stall_report(const StepMeter& meter, const Workload& workload, const Timeline& timeline,
                         uint64_t steps) {
  StallReport r;
  r.steps = meter.steps();
  r.step = meter.mean();
  r.tokens = workload.config().shape.rows() * workload.config().shape.micro_batches;
  for (ChunkId c = 0; c < workload.layout().chunks(); ++c) {
    double seconds = 0;
    for (size_t p = 0; p < kPlanes; ++p) {
      seconds += timeline.waited_for({c, static_cast<Plane>(p)});
    }
    if (seconds <= 0) continue;
    r.chunks.push_back({c, tensors_of(workload.layout(), c), seconds / static_cast<double>(steps)});
  }
  std::stable_sort(
      r.chunks.begin(), r.chunks.end(),
      [](const StalledChunk& a, const StalledChunk& b) { return a.seconds > b.seconds; });
  if (r.chunks.size() > kMostChunks) r.chunks.resize(kMostChunks);
  return r;
}

void add_advice(StallReport& r, const Workload& workload, const PlanResult& plan,
                const Budgets& budgets, bool must) {
  if (r.step.stalled() >= kWorthAdvice || must) {
    r.rates = "measured in this run";
    const VirtualRates rates =
        rates_of_run(r.step, plan.prediction, workload.plan_input(budgets).rates);
    const Predictor predictor(workload, plan, rates);
    if (const auto now = predictor.with(budgets)) {
      r.predicted_seconds = now->step_seconds;
      r.critical_tokens = critical_tokens(now->work, rates, r.tokens).value_or(0);
      advise_tier(r, workload, predictor, budgets, Tier::device);
      if (budgets.bytes[static_cast<size_t>(Tier::host)] != 0) {
        advise_tier(r, workload, predictor, budgets, Tier::host);
      }
      advise_tokens(r, workload, predictor, budgets);
    }
  }
  if (!r.advice.empty()) return;
  const double own = r.step.seconds - r.step.stalls.sum();
  r.advice.push_back(
      {"none",
       r.step.stalled() < kWorthAdvice
           ? "compute bound: nothing to gain from more memory"
           : fmt::format("neither more memory nor more tokens is predicted to shorten the {} of a "
                         "step beside compute",
                         percent(r.step.seconds - own, r.step.seconds))});
}

std::string stall_text(const StallReport& r) {
  std::string out =
      fmt::format("stalls      {} of a step of {:.4g} s, mean of {}",
                  percent(r.step.stalls.sum(), r.step.seconds), r.step.seconds, r.steps);
  const char* between = ": ";
  for (const auto& [name, seconds] : causes(r.step.stalls)) {
    if (seconds < r.step.seconds / 1000) continue;
    out += between + name + " " + percent(seconds, r.step.seconds);
    between = ", ";
  }
  if (!r.chunks.empty()) {
    out += "\nwaited for ";
    between = " ";
    for (const StalledChunk& c : r.chunks) {
      out += fmt::format("{}chunk {} ({}) {:.3g} ms a step", between, c.chunk, c.tensors,
                         c.seconds * 1e3);
      between = ", ";
    }
  }
  for (const Advice& a : r.advice) out += "\nadvice      " + a.text;
  if (r.predicted_seconds > 0) {
    out += fmt::format(
        "\n            predicted by simulation at the rates {}, at which this step "
        "is predicted to take {:.4g} s",
        r.rates, r.predicted_seconds);
  }
  return out;
}

Json stall_json(const StallReport& r) {
  Json stalls = Json::object(), busy = Json::object(), chunks = Json::array(),
       advice = Json::array();
  for (size_t i = 0; i < kResources; ++i) {
    if (static_cast<Resource>(i) == Resource::compute) continue;
    stalls[name_of(static_cast<Resource>(i))] = r.step.stalls.on[i];
    busy[name_of(static_cast<Resource>(i))] = r.step.busy[i];
  }
  stalls["sharing"] = r.step.stalls.sharing;
  stalls["issuer"] = r.step.stalls.issuer;
  for (const StalledChunk& c : r.chunks) {
    chunks.push_back({{"chunk", c.chunk}, {"tensors", c.tensors}, {"seconds", c.seconds}});
  }
  for (const Advice& a : r.advice) {
    Json j = {{"kind", a.kind}, {"text", a.text}};
    if (a.more_bytes != 0) j["more_bytes"] = a.more_bytes;
    if (a.step_seconds_after > 0) {
      j["predicted_step_seconds"] = {{"before", a.step_seconds_before},
                                     {"after", a.step_seconds_after}};
    }
    advice.push_back(std::move(j));
  }
  Json j = {{"steps", r.steps},
            {"step_seconds", r.step.seconds},
            {"compute_seconds", r.step.compute()},
            {"stalls", stalls},
            {"busy", busy},
            {"bytes",
             {{"h2d", r.step.h2d_bytes},
              {"d2h", r.step.d2h_bytes},
              {"nvme_read", r.step.nvme_read_bytes},
              {"nvme_write", r.step.nvme_write_bytes}}},
            {"chunks", chunks},
            {"tokens", r.tokens},
            {"critical_tokens", nullptr},
            {"predicted_step_seconds", nullptr},
            {"rates", r.rates.empty() ? Json(nullptr) : Json(r.rates)},
            {"advice", advice}};
  if (r.critical_tokens > 0) j["critical_tokens"] = r.critical_tokens;
  if (r.predicted_seconds > 0) j["predicted_step_seconds"] = r.predicted_seconds;
  return j;
}

}  // namespace strata
