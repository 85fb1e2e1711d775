#include "cli/train_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/sizes.hpp"
#include "runtime/hash.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

size_t index(Tier t) { return static_cast<size_t>(t); }

}  // namespace

void TrainReport::add(const StepMetrics& m) {
  meter_.add(m);
  tail_.push_back(m.loss);
  if (tail_.size() > kTail) tail_.erase(tail_.begin());
  if (m.validation_loss) validation_ = *m.validation_loss;
  last_ = m;
  ++steps_;
  h2d_ += m.h2d_bytes;
  d2h_ += m.d2h_bytes;
  nvme_read_ += m.nvme_read_bytes;
  nvme_write_ += m.nvme_write_bytes;
}

void TrainReport::note_peak() { resident_peak_ = peak_resident_bytes(); }

double TrainReport::tail_mean() const {
  double sum = 0;
  for (const double l : tail_) sum += l;
  return sum / static_cast<double>(tail_.size());
}

std::string TrainReport::text(const Workload& workload, Session& session, const Budgets& budgets,
                              bool with_state) const {
  const auto peak = [&](Tier t) {
    return format_bytes(session.ledger().peak(t)) + " of " + format_bytes(budgets.bytes[index(t)]);
  };
  const auto per_step = [&](uint64_t bytes) {
    return format_bytes(bytes / std::max<uint64_t>(1, steps_));
  };
  const size_t weights = session.ledger().peak(Tier::device, Category::weight);
  std::string out = fmt::format(
      "\nused peak   device {}, host {}\n"
      "resident    at most {}, as the operating system counts, libraries included\n"
      "weights     at most {:.1f} % of {} on the device at once\n"
      "moved       {} to the device and {} back a step, evaluations included\n"
      "loss        mean of the last {} steps {:.4f}, validation {}",
      peak(Tier::device), peak(Tier::host), format_bytes(resident_peak_),
      100.0 * static_cast<double>(weights) / static_cast<double>(workload.weight_bytes()),
      format_bytes(workload.weight_bytes()), per_step(h2d_), per_step(d2h_), tail_.size(),
      tail_mean(), validation_ ? fmt::format("{:.4f}", *validation_) : "-");
  if (with_state) out += "\nstate       " + hash_text(session.state_hash());
  if (const NvmeStore* const store = session.nvme()) {
    out +=
        fmt::format("\nnvme        {} used; read {} and wrote {} a step through {}{}{}",
                    peak(Tier::nvme), per_step(nvme_read_), per_step(nvme_write_), store->engine(),
                    store->engine_reason().empty() ? "" : " (" + store->engine_reason() + ")",
                    store->direct() ? "" : ", by way of the page cache");
    out += "; the page cache holds " + format_bytes(store->cached_bytes());
    if (!store->memory_reason().empty()) out += "; " + store->memory_reason();
  }
  return out;
}

std::string TrainReport::json(const Workload& workload, const Session& session,
                              const Budgets& budgets, uint64_t steps, bool stopped,
                              const std::string& checkpoint,
                              const std::optional<StallReport>& stalls) const {
  nlohmann::ordered_json j = {
      {"steps", steps},
      {"stopped", stopped},
      {"loss", last_.loss},
      {"mean_loss_last_50", tail_mean()},
      {"validation_loss", nullptr},
      {"tokens", last_.tokens},
      {"h2d_bytes", h2d_},
      {"d2h_bytes", d2h_},
      {"nvme_read_bytes", nvme_read_},
      {"nvme_write_bytes", nvme_write_},
      {"device_weight_peak_bytes", session.ledger().peak(Tier::device, Category::weight)},
      {"weight_bytes", workload.weight_bytes()},
      {"resident_peak_bytes", resident_peak_}};
  if (validation_) j["validation_loss"] = *validation_;
  j["checkpoint"] = nullptr;
  if (!checkpoint.empty()) j["checkpoint"] = checkpoint;
  if (const NvmeStore* const store = session.nvme()) {
    j["nvme_engine"] = store->engine();
    j["nvme_cached_bytes"] = store->cached_bytes();
    j["nvme_memory_registered"] = store->memory_reason().empty();
  }
  for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
    j["tiers"][name_of(t)] = {{"budget", budgets.bytes[index(t)]},
                              {"peak", session.ledger().peak(t)}};
  }
  j["stalls"] = stalls ? stall_json(*stalls) : nlohmann::ordered_json();
  return j.dump();
}

}  // namespace strata
