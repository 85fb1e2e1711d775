#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/plan_report.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"
#include "runtime/hash.hpp"
#include "train/metrics_console.hpp"

namespace strata {
namespace {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw IoError("cannot make the folder " + path + " of --out: " + error.message());
  }
}

/// Moves a file that is not empty out of the way, to the first free `NAME.N.EXTENSION`, and says
/// where; empty: there was none.
std::string keep_earlier(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0) return {};
  for (uint32_t n = 1;; ++n) {
    fs::path kept(path);
    kept.replace_filename(kept.stem().string() + "." + std::to_string(n) +
                          kept.extension().string());
    if (fs::exists(kept, error)) continue;
    fs::rename(path, kept, error);
    if (error) throw IoError("cannot move " + path + " of an earlier run: " + error.message());
    return kept.string();
  }
}

/// Losses of the last steps, for the mean that is reported at the end.
class Tail {
 public:
  static constexpr size_t kSteps = 50;
  void add(double loss) {
    losses_.push_back(loss);
    if (losses_.size() > kSteps) losses_.erase(losses_.begin());
  }
  double mean() const {
    double sum = 0;
    for (const double l : losses_) sum += l;
    return sum / static_cast<double>(losses_.size());
  }
  size_t count() const { return losses_.size(); }

 private:
  std::vector<double> losses_;
};

}  // namespace

int run_train(const TrainArgs& args) {
  Output out(args.json);
  const SessionConfig config = session_config(args);
  const Workload workload(config);
  const auto data = open_data(args, config.shape.seq, vocabulary_of(config.model));
  const Budgets budgets = resolve_budgets(args.budget);
  const PlanResult plan = workload.plan(budgets);
  out.text(plan_table(workload, plan));
  if (!plan.fits) {
    out.text(fixes_text(plan, find_fixes(workload, plan, budgets)));
    throw DoesNotFit(describe_shortfall(plan));
  }
  out.text("Numerics  " + workload.numerics_key(data->hash(), schedule_of(args)) + "\n");
  make_folder(args.out);
  RunOptions options;
  options.nvme = {args.budget.nvme, args.budget.nvme_engine};
  Session session(workload, plan, budgets, options);
  TrainerConfig trainer_config;
  trainer_config.schedule = schedule_of(args);
  trainer_config.evaluate_every = std::max<uint64_t>(1, args.steps / 10);
  Trainer trainer(workload, session, *data, trainer_config);
  const std::string metrics_path = args.out + "/metrics.jsonl";
  if (const std::string kept = keep_earlier(metrics_path); !kept.empty()) {
    out.text("The metrics of an earlier run are now in " + kept + "\n");
  }
  MetricsWriter metrics(metrics_path);

  ConsoleProgress progress(args.steps);
  out.text(progress.header());
  const uint64_t every = std::max<uint64_t>(1, args.steps / 50);
  Tail tail;
  StepMetrics last;
  double validation = 0;
  // Of the steps alone, evaluations left out.
  uint64_t h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;
  trainer.run([&](const StepMetrics& m) {
    metrics.write(m);
    progress.record(m);
    if (m.step == 1 || m.step % every == 0 || m.validation_loss) out.text(progress.line(m));
    tail.add(m.loss);
    if (m.validation_loss) validation = *m.validation_loss;
    last = m;
    h2d += m.h2d_bytes;
    d2h += m.d2h_bytes;
    nvme_read += m.nvme_read_bytes;
    nvme_write += m.nvme_write_bytes;
  });
  const double steps = static_cast<double>(args.steps);
  const auto peak = [&](Tier t) {
    const auto i = static_cast<size_t>(t);
    return format_bytes(session.ledger().peak(t)) + " of " + format_bytes(budgets.bytes[i]);
  };
  const size_t weights = session.ledger().peak(Tier::device, Category::weight);
  const auto per_step = [&](uint64_t bytes) {
    return format_bytes(static_cast<uint64_t>(static_cast<double>(bytes) / steps));
  };
  char text[512];
  std::snprintf(text, sizeof text,
                "\nused peak   device %s, host %s\n"
                "weights     at most %.1f %% of %s on the device at once\n"
                "moved       %s to the device and %s back a step\n"
                "loss        mean of the last %zu steps %.4f, validation %.4f\n"
                "state       %s",
                peak(Tier::device).c_str(), peak(Tier::host).c_str(),
                100.0 * static_cast<double>(weights) / static_cast<double>(workload.weight_bytes()),
                format_bytes(workload.weight_bytes()).c_str(), per_step(h2d).c_str(),
                per_step(d2h).c_str(), tail.count(), tail.mean(), validation,
                hash_text(session.state_hash()).c_str());
  out.text(text);
  if (const NvmeStore* const store = session.nvme()) {
    out.text("nvme        " + peak(Tier::nvme) + " used; read " + per_step(nvme_read) +
             " and wrote " + per_step(nvme_write) + " a step through " + store->engine() +
             (store->direct() ? "" : ", by way of the page cache"));
  }
  nlohmann::ordered_json j = {{"steps", args.steps},
                              {"loss", last.loss},
                              {"mean_loss_last_50", tail.mean()},
                              {"validation_loss", validation},
                              {"tokens", last.tokens},
                              {"h2d_bytes", h2d},
                              {"d2h_bytes", d2h},
                              {"nvme_read_bytes", nvme_read},
                              {"nvme_write_bytes", nvme_write},
                              {"device_weight_peak_bytes", weights},
                              {"weight_bytes", workload.weight_bytes()}};
  for (const Tier t : {Tier::device, Tier::host, Tier::nvme}) {
    j["tiers"][name_of(t)] = {{"budget", budgets.bytes[static_cast<size_t>(t)]},
                              {"peak", session.ledger().peak(t)}};
  }
  out.result(j.dump());
  return 0;
}

}  // namespace strata
