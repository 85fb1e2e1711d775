// `strata train` and `strata resume`.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/chrome_trace.hpp"
#include "cli/output.hpp"
#include "cli/plan_report.hpp"
#include "cli/run_file.hpp"
#include "cli/run_setup.hpp"
#include "cli/run_source.hpp"
#include "cli/stop_signals.hpp"
#include "cli/train_report.hpp"
#include "cli/verbs.hpp"
#include "runtime/clock.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/watched_files.hpp"
#include "train/metrics_console.hpp"
#include "train/run_lock.hpp"
#include "train/trainer.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The exit code of a run that was stopped and saved.
constexpr int kStopped = 75;

/// Moves a file that is not empty out of the way, to the first free `NAME.N.EXTENSION`, and says
/// where; empty: there was none.
std::string keep_earlier(const std::string& path) {
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

StepWindow window_of(const ObserveArgs& o) {
  if (o.last_step < o.first_step) return {};
  const uint64_t count = o.last_step - o.first_step + 1;
  return {o.first_step - 1, static_cast<uint32_t>(std::min<uint64_t>(count, UINT32_MAX))};
}

/// A run from its first step, or from a checkpoint.
class Run {
 public:
  Run(const TrainArgs& args, Output& out)
      : args_(args),
        out_(out),
        began_(seconds_now()),
        folder_(watched_files(), checkpoints_in(args.out)),
        newest_(newest()) {}

  int train(const std::optional<FoundCheckpoint>& start);

 private:
  TrainerConfig trainer_config(uint64_t first, Session&, const Workload&, const std::string& key);
  bool should_stop() const {
    return StopSignals::received() != 0 ||
           (args_.save.max_seconds > 0 && seconds_now() - began_ >= args_.save.max_seconds);
  }
  uint64_t newest() const {
    const auto all = folder_.list();
    return all.empty() ? 0 : all.back().step;
  }
  int nothing_to_do(const FoundCheckpoint&);
  void load(const FoundCheckpoint&, const Workload&, Session&);
  void save(uint64_t done, Session&, const Workload&, const std::string& key);
  /// What is in the folder of the run about the run, before its first step.
  void describe(uint64_t first, const Workload&, const Budgets&);
  /// Of steps that were recorded, and of stalls; what else is known of them.
  std::optional<StallReport> observe(bool stopped, Session&, const Workload&, const PlanResult&,
                                     const Budgets&, const Timeline&);
  int finish(uint64_t done, Session&, const Workload&, const PlanResult&, const Budgets&,
             const Timeline&);

  const TrainArgs& args_;
  Output& out_;
  double began_;
  CheckpointFolder folder_;
  uint64_t newest_;  // step of the newest checkpoint when the run was set up; 0: none
  TrainReport report_;
  std::optional<MetricsWriter> metrics_;  // of the run that trains
  std::string checkpoint_;
};

int Run::train(const std::optional<FoundCheckpoint>& start) {
  Budgets budgets = resolve_budgets(args_.budget);
  const SessionConfig config = session_config(args_, budgets);
  const Workload workload(config);
  const auto data = open_data(args_, config.shape.seq, vocabulary_of(config.model));
  const std::string key = workload.numerics_key(data->hash(), schedule_of(args_));
  const uint64_t first = start ? start->manifest.step : 0;
  if (start) {
    const std::string differs = check_numerics(*start, key, args_.save.allow_inexact);
    out_.text("Going on after step " + std::to_string(first) + " with " + start->entry.path +
              (differs.empty() ? "" : "\nNot as before: " + differs));
    if (first >= args_.steps && args_.resume_auto) return nothing_to_do(*start);
    if (first >= args_.steps) {
      throw ConfigError("all " + std::to_string(first) +
                        " steps are done; to train further give --steps with more");
    }
  }
  const StepWindow window = window_of(args_.observe);
  const Program& program = workload.program(Mode::train);
  const uint32_t chunks = workload.layout().chunks();
  charge_external(budgets, Timeline::bytes_for(program, workload.shape(), chunks, window));
  Timeline timeline(program, workload.shape(), chunks, window);
  const PlanResult plan = workload.plan(budgets);
  out_.text(plan_table(workload, plan));
  if (!plan.fits) {
    out_.text(fixes_text(plan, find_fixes(workload, plan, budgets)));
    throw DoesNotFit(describe_shortfall(plan));
  }
  out_.text("Numerics  " + key + "\n");
  watched_files().make_folder(args_.out);
  const RunLock lock(args_.out);
  if (newest() != newest_) {
    throw ConfigError("another run has just saved step " + std::to_string(newest()) + " in " +
                      args_.out + "; start again, to go on from there");
  }
  folder_.remove_partial();
  if (!args_.save.off) require_room(folder_, workload);
  const StopSignals signals;
  RunOptions options;
  options.nvme = {args_.budget.nvme, args_.budget.nvme_engine, !args_.budget.nvme_unchecked};
  options.initialize = !start;
  options.timeline = &timeline;
  Session session(workload, plan, budgets, options);
  if (start) {
    load(*start, workload, session);
    if (const size_t n = folder_.supersede_after(first); n != 0) {
      out_.text(std::to_string(n) + " later checkpoints are now called superseded-...");
    }
  }
  Trainer trainer(workload, session, *data, trainer_config(first, session, workload, key));
  const std::string metrics_path = metrics_in(args_.out);
  if (first == 0) {
    if (const std::string kept = keep_earlier(metrics_path); !kept.empty()) {
      out_.text("The metrics of an earlier run are now in " + kept + "\n");
    }
  }
  metrics_.emplace(metrics_path, first);
  describe(first, workload, budgets);
  ConsoleProgress progress(args_.steps);
  out_.text(progress.header());
  const uint64_t every = std::max<uint64_t>(1, args_.steps / 50);
  const uint64_t done = trainer.run([&](const StepMetrics& m) {
    metrics_->write(m);
    progress.record(m);
    if (m.step == first + 1 || m.step % every == 0 || m.validation_loss) {
      out_.text(progress.line(m));
    }
    report_.add(m);
  });
  return finish(done, session, workload, plan, budgets, timeline);
}

void Run::describe(uint64_t first, const Workload& workload, const Budgets& budgets) {
  if (first == 0) {
    for (const std::string& earlier : {stalls_in(args_.out), trace_in(args_.out)}) {
      watched_files().remove(earlier);
    }
  }
  const RunFile file{args_.flags, budgets, workload.config().threads, workload.config().order};
  replace_text(watched_files(), run_file_in(args_.out), run_file_text(file));
}

std::optional<StallReport> Run::observe(bool stopped, Session& session, const Workload& workload,
                                        const PlanResult& plan, const Budgets& budgets,
                                        const Timeline& timeline) {
  if (timeline.window().count != 0) {
    session.backend().drain();
    const TimelineNames names{workload.program(Mode::train),
                              workload.layout(),
                              workload.shape(),
                              "measured",
                              {{"model", workload.config().model}, {"policy", plan.plan.policy}}};
    write_chrome_trace(trace_in(args_.out), timeline, names);
    out_.text("timeline    " + trace_in(args_.out) +
              (timeline.complete() ? "" : "; not all of it found room"));
  }
  if (report_.meter().steps() == 0) return std::nullopt;
  StallReport stalls = stall_report(report_.meter(), workload, timeline, report_.steps());
  // Whoever stops a run waits for no predictions.
  if (!stopped) add_advice(stalls, workload, plan, budgets, args_.observe.advice);
  replace_text(watched_files(), stalls_in(args_.out), stall_json(stalls).dump(2) + "\n");
  return stalls;
}

/// The run that a supervisor starts again had ended.
int Run::nothing_to_do(const FoundCheckpoint& start) {
  out_.text("All " + std::to_string(args_.steps) + " steps are done already.");
  const nlohmann::ordered_json j = {{"steps", start.manifest.step},
                                    {"stopped", false},
                                    {"tokens", start.manifest.tokens},
                                    {"checkpoint", start.entry.path}};
  out_.result(j.dump());
  return 0;
}

void Run::load(const FoundCheckpoint& start, const Workload& workload, Session& session) {
  try {
    load_checkpoint(watched_files(), start.entry.path, start.manifest, workload, session);
  } catch (const IoError& e) {
    std::string before;
    for (const auto& c : folder_.list()) {
      if (c.step < start.manifest.step) before = c.path;
    }
    if (before.empty()) throw;
    throw IoError(std::string(e.what()) + "; the one before it: strata resume " + before);
  }
}

TrainerConfig Run::trainer_config(uint64_t first, Session& session, const Workload& workload,
                                  const std::string& key) {
  TrainerConfig c;
  c.first_step = first;
  c.schedule = schedule_of(args_);
  c.evaluate_every =
      args_.evaluate_every != 0 ? args_.evaluate_every : std::max<uint64_t>(1, args_.steps / 10);
  c.evaluate_batches = args_.evaluate_batches;
  c.stop = [this] { return should_stop(); };
  if (args_.save.off) return c;
  c.save_every = args_.save.every;
  c.save = [this, &session, &workload, key](uint64_t done) { save(done, session, workload, key); };
  return c;
}

void Run::save(uint64_t done, Session& session, const Workload& workload, const std::string& key) {
  metrics_->sync();
  Manifest m;
  m.step = done;
  m.tokens = done * workload.config().shape.rows() * workload.config().shape.micro_batches;
  m.numerics_key = key;
  m.flags = args_.flags;
  folder_.retain(args_.save.keep_last, args_.save.keep_every);  // there is room for one more
  checkpoint_ = save_checkpoint(folder_, m, workload, session).path;
  folder_.retain(args_.save.keep_last, args_.save.keep_every);
}

int Run::finish(uint64_t done, Session& session, const Workload& workload, const PlanResult& plan,
                const Budgets& budgets, const Timeline& timeline) {
  const bool stopped = done < args_.steps;
  if (!checkpoint_.empty()) out_.text("\nsaved       " + checkpoint_);
  report_.note_peak();
  // Whoever stops a run may not wait for all of its state to be read.
  out_.text(report_.text(workload, session, budgets, !stopped));
  const auto stalls = observe(stopped, session, workload, plan, budgets, timeline);
  if (stalls) out_.text(stall_text(*stalls));
  if (stopped) {
    out_.text("Stopped after step " + std::to_string(done) + " of " + std::to_string(args_.steps) +
              (checkpoint_.empty() ? "; nothing was saved, as --no-checkpoint asks"
                                   : "; go on with: strata resume " + args_.out));
  }
  out_.result(report_.json(workload, session, budgets, done, stopped, checkpoint_, stalls));
  if (!stopped) return 0;
  if (!checkpoint_.empty()) return kStopped;
  const int signal = StopSignals::received();
  return signal != 0 ? 128 + signal : 0;  // as a shell says it
}

}  // namespace

int run_train(const TrainArgs& args) {
  Output out(args.json);
  std::optional<FoundCheckpoint> start;
  if (!CheckpointFolder(watched_files(), checkpoints_in(args.out)).list().empty()) {
    if (!args.resume_auto) {
      throw ConfigError(args.out +
                        " has checkpoints of an earlier run; go on with it (strata resume " +
                        args.out + ", or --resume auto), or name another folder with --out");
    }
    start = find_checkpoint(args.out);
  }
  return Run(args, out).train(start);
}

int run_resume(const ResumeArgs& args) {
  Output out(args.json);
  const FoundCheckpoint found = find_checkpoint(args.run);
  std::error_code error;
  const fs::path folder = fs::path(found.entry.path).parent_path();
  if (!fs::equivalent(folder.empty() ? "." : folder, checkpoints_in(found.run), error)) {
    throw ConfigError(found.entry.path + " is not in a run's folder of checkpoints; copy it to " +
                      "NEW/checkpoints/ and resume NEW");
  }
  TrainArgs train = train_args_of(found.manifest, args.overrides);
  train.out = found.run;
  return Run(train, out).train(found);
}

}  // namespace strata
