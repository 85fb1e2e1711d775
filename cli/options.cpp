#include "cli/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/bench_options.hpp"
#include "cli/flag_groups.hpp"
#include "cli/offload_bench_options.hpp"
#include "cli/sim_options.hpp"
#include "offload/nvme/store.hpp"  // its depth
#include "train/tokenizer_utf8.hpp"

#ifndef STRATA_VERSION
#define STRATA_VERSION "0.1.0"
#endif

namespace strata {
namespace {

constexpr const char* kSeedHelp = "Seed of weights and data order";

/// Fills in defaults that depend on other flags and checks what concerns several.
void finish(OptimizerArgs& args, const Given& given, uint64_t steps) {
  if (given.min_lr->count() == 0) args.min_lr = args.lr / 10;
  if (given.warmup->count() == 0) args.warmup = steps / 20;
  if (args.min_lr > args.lr) {
    throw ConfigError(fmt::format("--min-lr: {} is above --lr {}", args.min_lr, args.lr));
  }
  if (args.warmup > steps) {
    throw ConfigError(
        fmt::format("--warmup: {} steps are more than --steps {}", args.warmup, steps));
  }
}

void require_model(const ModelArgs& args, const char* verb) {
  if (!args.model.empty()) return;
  throw ConfigError(fmt::format("{}: --model is missing; for example --model gpt2", verb));
}

/// A path that means the same from any folder; what "a link/.." means is left to the system.
std::string from_anywhere(const std::string& path) {
  return std::filesystem::absolute(path).string();
}

/// Reports and manifests are JSON, which has no other text.
void require_utf8(std::string_view flag, const std::string& text) {
  Utf8Validator utf8;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  if (!utf8.feed({bytes, text.size()}) && !utf8.finish()) return;
  throw ConfigError(fmt::format("{}: the name is not UTF-8 text; rename it, or use a link", flag));
}

/// Flags of `verb` that were given with a value, except those named.
GivenFlags flags_given(const CLI::App& verb, std::initializer_list<std::string_view> except) {
  GivenFlags out;
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (!name.starts_with("--") || option->count() == 0 || option == verb.get_help_ptr()) continue;
    if (std::find(except.begin(), except.end(), name) != except.end()) continue;
    for (std::string value : option->results()) {
      require_utf8(name, value);
      if (name == "--data" || name == "--machine") value = from_anywhere(value);
      if (name == "--nvme") {
        std::string list;
        for (const std::string& d : parse_list(name, value)) {
          list += (list.empty() ? "" : ",") + from_anywhere(d);
        }
        value = list;
      }
      // Flags without a value have "true" as their result.
      out.emplace_back(name, option->get_expected_max() == 0 ? "" : value);
    }
  }
  return out;
}

/// Blocks of direct transfers, in a file of so many that each is used rarely.
void check_transfers(uint64_t block, uint64_t file, uint32_t depth, const char* enough) {
  constexpr uint64_t kPage = 4096, kMost = uint64_t{1} << 30;
  if (block % kPage != 0 || block == 0 || block > kMost) {
    throw ConfigError("--block-size: must be a multiple of 4096 bytes, at most 1 GiB");
  }
  if (file % block != 0 || file / block < uint64_t{8} * depth) {
    throw ConfigError(fmt::format("--file-size: must be whole blocks, at least {}", enough));
  }
}

/// The whole command line: a parser and the structs it fills.
class Parser {
 public:
  Parser();
  Command parse(int argc, const char* const* argv);

 private:
  CLI::App* add_verb(CLI::App& parent, const char* name, const char* help);
  void refuse_extras(const CLI::App& app) const;
  void add_run_verbs();
  void add_probe();
  void add_benches();
  void finish_verify();
  void finish_bench_nvme() const;
  TrainArgs finish_train();
  Command parse_bench();

  CLI::App app_{"Trains neural networks larger than device memory.", "strata"};
  TrainArgs train_args_;
  ResumeArgs resume_args_;
  RunArgs resumed_;  // what flags of resume are checked against
  GenerateArgs generate_args_;
  EvalArgs eval_args_;
  InspectArgs inspect_args_;
  DoctorArgs doctor_args_;
  PlanArgs plan_args_;
  VerifyArgs verify_args_;
  TraceArgs trace_args_;
  SimArgs sim_args_;
  ReportArgs report_args_;
  PoliciesArgs policies_args_;
  ProbeArgs probe_args_;
  BenchStepArgs bench_step_args_;
  BenchNvmeArgs bench_nvme_args_;
  BenchAdamArgs bench_adam_args_;
  BenchCurveArgs bench_curve_args_;
  BenchPoliciesArgs bench_policies_args_;
  CLI::App *train_, *resume_, *generate_, *eval_, *inspect_, *doctor_;
  CLI::App *plan_, *verify_, *trace_, *sim_, *report_, *policies_, *probe_;
  CLI::App *bench_, *bench_step_, *bench_nvme_, *bench_adam_, *bench_curve_, *bench_policies_;
  Given train_given_, plan_given_, verify_given_;
};

Parser::Parser() {
  app_.set_version_flag("--version", "strata " STRATA_VERSION, "Print the version and exit");
  app_.set_help_flag("--help,-h", "Print this help and exit");
  app_.get_formatter()->column_width(34);
  app_.require_subcommand(0, 1);
  app_.allow_extras();
  app_.footer("`strata VERB --help` explains the flags of a verb; [defaults] are in brackets.");

  train_ = add_verb(app_, "train", "Train within memory budgets");
  train_given_ = add_run(*train_, train_args_, kSeedHelp);
  Flags train_flags(*train_);
  train_flags.group("Checkpoints");
  train_flags.choice("--resume", train_args_.resume_auto,
                     std::array<std::string_view, 2>{"never", "auto"},
                     "auto: go on from the newest checkpoint in --out, if there is one");
  add_run_verbs();
  plan_ = add_verb(app_, "plan",
                   "Say whether a training run fits its budgets, and what it needs; takes the "
                   "flags of train");
  plan_given_ = add_run(*plan_, plan_args_, kSeedHelp);
  Flags plan_flags(*plan_);
  plan_flags.group("Run");
  plan_flags.flag("--explain", plan_args_.explain,
                  "Say why each chunk lives where it does, and what limits the step");
  verify_ = add_verb(app_, "verify",
                     "Prove that budgets change no bit: train resident and within budgets and "
                     "compare; takes the flags of train");
  verify_given_ = add_run(*verify_, verify_args_,
                          "Seed of weights and data; with --random, of the configurations");
  Flags verify_flags(*verify_);
  verify_flags.group("Verification");
  verify_flags.count("--random", verify_args_.random,
                     "Compare N random configurations of small models, drawn from --seed", 1,
                     1u << 24, "off: the configuration given");
  trace_ = add_verb(app_, "trace",
                    "Write the trace of a training step, which docs/trace-format.md describes");
  Flags trace_flags(*trace_);
  add_micro_batch(trace_flags, trace_args_.model);
  add_threads(trace_flags, trace_args_.threads);
  trace_flags.group("Output");
  trace_flags.text("--out,-o", "FILE", trace_args_.out, "File to write; - is stdout");
  sim_ = add_verb(app_, "sim", "Simulate steps of a trace: times, stalls, bytes and peaks");
  add_sim(*sim_, sim_args_);
  report_ = add_verb(app_, "report", "Write a page about a run: steps, memory, transfers, stalls");
  add_report(*report_, report_args_);
  policies_ = add_verb(app_, "policies", "List the offload policies");
  Flags(*policies_).json(policies_args_.json);
  doctor_ = add_verb(app_, "doctor", "Look at this machine: what would slow a run or stop it");
  Flags doctor_flags(*doctor_);
  doctor_flags.value(
      "--nvme", "DIR[,DIR]", "the working directory", "Directories to look at",
      [this](const std::string& text) { doctor_args_.nvme = parse_list("--nvme", text); });
  doctor_flags.json(doctor_args_.json);
  add_probe();
  add_benches();
}

void Parser::add_probe() {
  probe_ = add_verb(app_, "probe", "Measure this machine for predictions, into a machine file");
  Flags flags(*probe_);
  probe_args_.model.model = "gpt2";
  probe_args_.model.batch = 4;
  flags.group("Products");
  flags.text("--model", "NAME", probe_args_.model.model, "Model whose matrix products are timed");
  flags.count("--seq", probe_args_.model.seq, "Tokens of a sequence", 1, 1u << 20, "256");
  flags.count("--batch", probe_args_.model.batch, "Sequences of a micro-batch", 1, 1u << 20);
  flags.group("Drives");
  flags.value("--nvme", "DIR[,DIR]", "none", "Directories to measure, one on each drive",
              [this](const std::string& text) { probe_args_.nvme = parse_list("--nvme", text); });
  flags.bytes("--file-size", probe_args_.nvme_bytes, "Bytes to measure in, written through once");
  flags.bytes("--block-size", probe_args_.block_bytes, "Bytes of a transfer");
  flags.group("Measurement");
  flags.bytes("--array-size", probe_args_.array_bytes,
              "Bytes of each array that memory is timed over; caches should not hold it");
  flags.count("--samples", probe_args_.samples, "Samples of each rate; the median counts", 1, 1000);
  flags.real("--seconds", probe_args_.seconds, "Of a sample", {0.001, 60});
  add_threads(flags, probe_args_.threads);
  flags.text("--out", "FILE", probe_args_.out, "Machine file to write");
  flags.json(probe_args_.json);
}

void Parser::add_run_verbs() {
  const char* const run_help = "Folder of a run (its --out), or of one of its checkpoints";
  resume_ = add_verb(app_, "resume",
                     "Go on with a run where its newest checkpoint is; takes those flags of train "
                     "that change no number, and --steps");
  Flags resume(*resume_);
  resume.group("Run");
  resume.text("RUN", "", resume_args_.run, run_help);
  resume.list("--data", "FILE|GLOB|DIR", resumed_.data, "Where the same data is now [as before]");
  resume.count("--steps", resumed_.steps, "Training steps in all", 1,
               std::numeric_limits<uint64_t>::max(), "as before");
  add_recompute(resume, resumed_.model.recompute);
  add_order(resume, resumed_.model.order);
  add_budget(resume, resumed_.budget);
  add_saving(resume, resumed_.save);
  add_observing(resume, resumed_.observe);
  resume.json(resume_args_.json);

  generate_ = add_verb(app_, "generate", "Write text with a trained model");
  Flags generate(*generate_);
  generate.group("Text");
  generate.text("RUN", "", generate_args_.run, run_help);
  generate.value("--prompt", "TEXT", "a line's end", "Text to go on from",
                 [this](const std::string& text) { generate_args_.prompt = text; });
  generate.count("--tokens", generate_args_.tokens, "Tokens to write", 1);
  generate.real("--temperature", generate_args_.temperature,
                "Spread of the choice; 0 always takes the likeliest token", {0, 1e6});
  generate.count("--top-k", generate_args_.top_k, "Choose among the K likeliest tokens only", 1,
                 1u << 24, "all");
  generate.count("--seed", generate_args_.seed, "Seed of the choices", 0);
  add_budget(generate, generate_args_.budget);
  generate.json(generate_args_.json);

  eval_ = add_verb(app_, "eval", "Measure a trained model's loss on held-out text");
  Flags eval(*eval_);
  eval.group("Data");
  eval.text("RUN", "", eval_args_.run, run_help);
  eval.list("--data", "FILE|GLOB|DIR", eval_args_.data,
            "Text or shards whose last tenth is evaluated [that of the run]");
  eval.count("--batches", eval_args_.batches, "Most batches to evaluate", 1,
             std::numeric_limits<uint64_t>::max(), "all");
  add_budget(eval, eval_args_.budget);
  eval.json(eval_args_.json);

  inspect_ = add_verb(app_, "inspect", "Show the tensors of a checkpoint");
  Flags inspect(*inspect_);
  inspect.text("PATH", "", inspect_args_.path, "A run, a checkpoint, or a safetensors file");
  inspect.json(inspect_args_.json);
}

void Parser::add_benches() {
  bench_ = add_verb(app_, "bench", "Measure");
  bench_step_ =
      add_verb(*bench_, "step", "Time resident training steps against the library's own GEMM");
  add_bench_step(*bench_step_, bench_step_args_);
  bench_nvme_ = add_verb(*bench_, "nvme", "Time transfers of the NVMe tier beside fio's");
  add_bench_nvme(*bench_nvme_, bench_nvme_args_);
  bench_adam_ = add_verb(*bench_, "adam", "Time AdamW beside a plain walk over the same memory");
  add_bench_adam(*bench_adam_, bench_adam_args_);
  bench_curve_ = add_verb(*bench_, "curve", "Time steps within budgets against their roofline");
  add_bench_curve(*bench_curve_, bench_curve_args_);
  bench_policies_ = add_verb(*bench_, "policies", "Measure policies beside their simulation");
  add_bench_policies(*bench_policies_, bench_policies_args_);
}

CLI::App* Parser::add_verb(CLI::App& parent, const char* name, const char* help) {
  CLI::App* verb = parent.add_subcommand(name, help);
  verb->allow_extras();
  verb->require_subcommand(0, 1);
  return verb;
}

/// Names the first argument that `app` does not know.
void Parser::refuse_extras(const CLI::App& app) const {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string& extra = extras.front();
  const bool is_flag = extra.starts_with('-');
  const std::string verb = app.get_parent() == nullptr  ? "strata"
                           : app.get_parent() == bench_ ? "strata bench " + app.get_name()
                                                        : "strata " + app.get_name();
  std::vector<std::string> known;
  if (is_flag) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else {
    for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  }
  if (!is_flag && known.empty()) {
    throw ConfigError(
        fmt::format("{}: '{}' belongs to no flag; see '{} --help'", verb, extra, verb));
  }
  const std::string name = extra.substr(0, extra.find('='));
  const std::string near = closest(name, known);
  throw ConfigError(fmt::format("{}: unknown {} '{}'; {}", verb, is_flag ? "flag" : "verb", name,
                                near.empty() ? fmt::format("see '{} --help'", verb)
                                             : fmt::format("did you mean '{}'?", near)));
}

void Parser::finish_verify() {
  if (verify_args_.random > 0) {
    for (const CLI::Option* option : verify_->get_options()) {
      const std::string name = option->get_name();
      const bool known = name == "--random" || name == "--seed" || name == "--json" ||
                         name == "--nvme" || option == verify_->get_help_ptr();
      if (known || option->count() == 0) continue;
      throw ConfigError("verify: --random draws its own configurations; leave out " + name +
                        " or --random");
    }
    return;
  }
  if (!verify_args_.model.model.empty()) return;
  throw ConfigError(
      "verify: nothing to compare; give --model and budgets, or --random N for N random "
      "configurations");
}

void Parser::finish_bench_nvme() const {
  const BenchNvmeArgs& a = bench_nvme_args_;
  if (a.directory.empty()) {
    throw ConfigError("bench nvme: DIR is missing; name a directory on the drive to measure");
  }
  check_transfers(a.block_bytes, a.file_bytes, a.depth, "8 times --depth of them");
}

Command Parser::parse(int argc, const char* const* argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return TextRequest{app_.help()};
  } catch (const CLI::CallForVersion& version) {
    return TextRequest{std::string(version.what()) + "\n"};
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();  // starts with the flag
    if (message.find("flag override") != std::string::npos) {
      throw ConfigError("--" + message.substr(0, message.find(' ')) + ": takes no value");
    }
    const bool missing = message.ends_with("missing");
    throw ConfigError(message.substr(0, message.find(':')) +
                      (missing ? ": needs a value" : ": given more than once"));
  } catch (const CLI::ParseError& error) {
    throw ConfigError(error.what());
  }
  const std::vector<CLI::App*> chosen = app_.get_subcommands();
  refuse_extras(app_);
  if (chosen.empty()) {
    throw ConfigError(
        "no verb given; use train, resume, generate, eval, plan, verify, inspect, doctor, trace, "
        "sim, report, policies, probe or bench, and see 'strata --help'");
  }
  refuse_extras(*chosen.front());
  const auto needs = [](const std::string& value, const char* message) {
    if (value.empty()) throw ConfigError(message);
    require_utf8("RUN", value);
  };
  if (chosen.front() == bench_) return parse_bench();
  if (chosen.front() == resume_) {
    needs(resume_args_.run, "resume: RUN is missing; name the folder that was --out of train");
    resume_args_.overrides = flags_given(*resume_, {"--json"});
    return resume_args_;
  }
  if (chosen.front() == generate_) {
    needs(generate_args_.run, "generate: RUN is missing; name the folder of a trained run");
    return generate_args_;
  }
  if (chosen.front() == eval_) {
    needs(eval_args_.run, "eval: RUN is missing; name the folder of a trained run");
    return eval_args_;
  }
  if (chosen.front() == inspect_) {
    needs(inspect_args_.path, "inspect: PATH is missing; name a run or a checkpoint");
    return inspect_args_;
  }
  if (chosen.front() == doctor_) return doctor_args_;
  if (chosen.front() == trace_) {
    require_model(trace_args_.model, "trace");
    return trace_args_;
  }
  if (chosen.front() == sim_) {
    finish_sim(sim_args_);
    return sim_args_;
  }
  if (chosen.front() == report_) {
    needs(report_args_.run, "report: RUN is missing; name the folder that was --out of train");
    return report_args_;
  }
  if (chosen.front() == policies_) return policies_args_;
  if (chosen.front() == probe_) {
    check_transfers(probe_args_.block_bytes, probe_args_.nvme_bytes, NvmeOptions{}.depth,
                    "256 of them");
    if (probe_args_.array_bytes < 4096 || probe_args_.array_bytes > uint64_t{1} << 40) {
      throw ConfigError("--array-size: must be from 4 KiB to 1 TiB");
    }
    return probe_args_;
  }
  if (chosen.front() == plan_) {
    require_model(plan_args_.model, "plan");
    finish(plan_args_.optimizer, plan_given_, plan_args_.steps);
    return plan_args_;
  }
  if (chosen.front() == verify_) {
    finish_verify();
    finish(verify_args_.optimizer, verify_given_, verify_args_.steps);
    return verify_args_;
  }
  return finish_train();
}

Command Parser::parse_bench() {
  if (bench_nvme_->parsed()) {
    refuse_extras(*bench_nvme_);
    finish_bench_nvme();
    return bench_nvme_args_;
  }
  if (bench_adam_->parsed()) {
    refuse_extras(*bench_adam_);
    constexpr uint64_t kLeast = 1 << 20, kMost = uint64_t{1} << 50;
    if (bench_adam_args_.bytes < kLeast || bench_adam_args_.bytes > kMost) {
      throw ConfigError("--bytes: must be 1 MiB to 1024 TiB");
    }
    return bench_adam_args_;
  }
  if (bench_curve_->parsed()) {
    refuse_extras(*bench_curve_);
    finish_bench_curve(bench_curve_args_);
    return bench_curve_args_;
  }
  if (bench_policies_->parsed()) {
    refuse_extras(*bench_policies_);
    finish_bench_policies(bench_policies_args_);
    return bench_policies_args_;
  }
  if (!bench_step_->parsed()) {
    throw ConfigError(
        "bench: say what to measure: strata bench step, strata bench adam, strata bench nvme DIR, "
        "strata bench curve, or strata bench policies");
  }
  refuse_extras(*bench_step_);
  require_model(bench_step_args_.model, "bench step");
  return bench_step_args_;
}

TrainArgs Parser::finish_train() {
  TrainArgs& args = train_args_;
  require_model(args.model, "train");
  if (args.data.empty()) {
    throw ConfigError(
        "train: --data is missing; give text files, token shards, a pattern or a directory");
  }
  finish(args.optimizer, train_given_, args.steps);
  require_utf8("--out", args.out);
  if (args.save.off && args.save.every != 0) {
    throw ConfigError("--no-checkpoint: --checkpoint-every is given too; leave out one of them");
  }
  args.flags =
      flags_given(*train_, {"--json", "--out", "--resume", "--max-time", "--allow-inexact",
                            "--steps", "--min-lr", "--warmup", "--trace-steps", "--advice"});
  args.flags.emplace_back("--steps", std::to_string(args.steps));
  args.flags.emplace_back("--min-lr", fmt::format("{}", args.optimizer.min_lr));
  args.flags.emplace_back("--warmup", std::to_string(args.optimizer.warmup));
  return args;
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) { return Parser().parse(argc, argv); }

}  // namespace strata
