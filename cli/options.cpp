#include "cli/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>

#include "cli/options_values.hpp"
#include "runtime/errors.hpp"

#ifndef STRATA_VERSION
#define STRATA_VERSION "0.1.0"
#endif

namespace strata {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr const char* kSeedHelp = "Seed of weights and data order";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Adds flags to one verb. Values arrive as text and are converted here, not by CLI11, so that all
/// messages have one form. Default values are read from the targets.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  void group(const char* name) { group_ = name; }

  template <class Use>
  CLI::Option* value(const char* name, const char* type, const std::string& shown_default,
                     const std::string& help, Use use) {
    const std::string text =
        shown_default.empty() ? help : fmt::format("{} [{}]", help, shown_default);
    CLI::Option* option = app_.add_option_function<std::string>(name, use, text);
    option->type_name(type)->group(group_);
    return option;
  }

  template <class T>
  void count(const char* name, T& target, const std::string& help, uint64_t least,
             uint64_t most = std::numeric_limits<T>::max(), std::string shown_default = {}) {
    if (shown_default.empty()) shown_default = fmt::format("{}", target);
    value(name, "N", shown_default, help, [=, &target](const std::string& text) {
      target = static_cast<T>(parse_count(name, text, least, most));
    });
  }

  CLI::Option* real(const char* name, double& target, const std::string& help, RealRange range,
                    std::string shown_default = {}) {
    if (shown_default.empty()) shown_default = fmt::format("{}", target);
    return value(name, "X", shown_default, help,
                 [=, &target](const std::string& text) { target = parse_real(name, text, range); });
  }

  void text(const char* name, const char* type, std::string& target, const std::string& help) {
    value(name, type, target, help, [=, &target](const std::string& text) {
      if (text.empty()) throw ConfigError(fmt::format("{}: the value is empty", name));
      target = text;
    });
  }

  /// The n-th choice stands for static_cast<T>(n); the first is the default.
  template <class T, size_t N>
  void choice(const char* name, T& target, const std::array<std::string_view, N>& choices,
              const std::string& help) {
    const std::string type = fmt::format("{}", fmt::join(choices, "|"));
    value(name, type.c_str(), std::string(choices[static_cast<size_t>(target)]), help,
          [=, &target](const std::string& text) {
            target = static_cast<T>(parse_choice(name, text, choices));
          });
  }

  void size(const char* name, std::optional<Size>& target, const std::string& shown_default,
            const std::string& help) {
    value(name, "SIZE", shown_default, help,
          [=, &target](const std::string& text) { target = Size::parse(name, text); });
  }

  void bytes(const char* name, uint64_t& target, const std::string& help) {
    value(name, "BYTES", format_bytes(target), help,
          [=, &target](const std::string& text) { target = parse_bytes(name, text); });
  }

  void json(bool& target) {
    app_.add_flag("--json", target, "One JSON object on stdout, all other text on stderr")
        ->disable_flag_override()
        ->group("Output");
  }

 private:
  CLI::App& app_;
  std::string group_ = "Options";
};

void add_model(Flags& flags, ModelArgs& args, bool with_recompute) {
  flags.group("Model and batch");
  flags.text("--model", "NAME", args.model,
             "A preset (gpt2, gpt2-medium, gpt2-large, gpt2-xl) or a shape like "
             "gpt2:L6,D384,H6,V256,T128");
  flags.count("--seq", args.seq, "Tokens of a sequence", 1, 1u << 24, "all positions of the model");
  flags.count("--batch", args.batch, "Sequences of a micro-batch", 1, 1u << 24);
  flags.count("--accum", args.accum, "Micro-batches of a step", 1, 1u << 24);
  flags.choice("--dtype", args.dtype, std::array<std::string_view, 2>{"fp32", "bf16"},
               "Type of weights, activations and gradients");
  if (!with_recompute) return;
  flags.choice("--recompute", args.recompute_block,
               std::array<std::string_view, 2>{"none", "block"},
               "What is computed again in backward instead of kept");
}

/// What the user said of values whose defaults depend on others.
struct Given {
  CLI::Option* min_lr = nullptr;
  CLI::Option* warmup = nullptr;
};

Given add_optimizer(Flags& flags, OptimizerArgs& args, bool with_schedule) {
  flags.group("Optimizer");
  flags.choice("--optimizer", args.config.kind, std::array<std::string_view, 2>{"adamw", "sgd"},
               "AdamW, or SGD without momentum");
  Given given;
  flags.real("--lr", args.lr, "Highest learning rate", {0, kInfinity});
  if (with_schedule) {
    given.min_lr = flags.real("--min-lr", args.min_lr, "Learning rate at the end of the cosine",
                              {0, kInfinity}, "a tenth of --lr");
    given.warmup = flags.value("--warmup", "N", "a twentieth of --steps", "Steps of linear warm-up",
                               [&args](const std::string& text) {
                                 args.warmup = parse_count("--warmup", text, 0, kNoLimit);
                               });
  }
  flags.real("--beta1", args.config.beta1, "AdamW: decay of the first moment",
             {.least = 0, .most = 1, .open_above = true});
  flags.real("--beta2", args.config.beta2, "AdamW: decay of the second moment",
             {.least = 0, .most = 1, .open_above = true});
  flags.real("--eps", args.config.eps, "AdamW: added to the denominator",
             {.least = 0, .most = kInfinity, .open_below = true});
  flags.real("--weight-decay", args.config.weight_decay, "On matrices only", {0, kInfinity});
  flags.real("--clip", args.clip, "Largest global gradient norm; 0 is off", {0, kInfinity});
  return given;
}

void add_threads(Flags& flags, uint32_t& threads) {
  flags.count("--threads", threads, "Threads that compute", 1, 4096, "every core");
}

void add_budget(Flags& flags, BudgetArgs& args) {
  flags.group("Memory");
  flags.size("--device-mem", args.device_mem, "80% of what is available",
             "Budget of the device tier: 700MiB, 2GiB, 80%, or -2GiB for all but 2 GiB");
  flags.size("--host-mem", args.host_mem, "0", "Budget of the host tier");
  flags.value("--nvme", "DIR[,DIR]", "none", "Directories of the NVMe tier, one on each drive",
              [&args](const std::string& text) { args.nvme = parse_list("--nvme", text); });
  flags.size("--nvme-mem", args.nvme_mem, "80% of what is free there", "Budget of the NVMe tier");
  flags.value(
      "--nvme-engine", "auto|io_uring|threads", args.nvme_engine,
      "How the NVMe tier transfers; auto is io_uring where it works",
      [&args](const std::string& text) {
        constexpr std::array<std::string_view, 3> kEngines = {"auto", "io_uring", "threads"};
        args.nvme_engine = kEngines[parse_choice("--nvme-engine", text, kEngines)];
      });
  flags.value("--chunk-size", "auto|BYTES", "auto", "Bytes of a chunk of weights",
              [&args](const std::string& text) {
                if (text == "auto") {
                  args.chunk_bytes = 0;
                  return;
                }
                args.chunk_bytes = parse_bytes("--chunk-size", text);
                if (args.chunk_bytes == 0) throw ConfigError("--chunk-size: must not be 0");
              });
  flags.text("--policy", "NAME", args.policy, "Offload policy; `strata policies` lists them");
  add_threads(flags, args.threads);
}

Given add_run(CLI::App& app, RunArgs& args, const char* seed_help) {
  Flags flags(app);
  add_model(flags, args.model, true);
  flags.group("Run");
  app.add_option("--data", args.data,
                 "UTF-8 text, or token shards as of llm.c (*.bin): files, patterns or directories "
                 "(their *.txt, else *.bin); the last tenth is for validation")
      ->type_name("FILE|GLOB|DIR")
      ->group("Run");
  flags.count("--steps", args.steps, "Training steps", 1);
  flags.count("--seed", args.seed, seed_help, 0);
  flags.text("--out", "DIR", args.out, "Where metrics.jsonl goes");
  const Given given = add_optimizer(flags, args.optimizer, true);
  add_budget(flags, args.budget);
  flags.json(args.json);
  return given;
}

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

/// The whole command line: a parser and the structs it fills.
class Parser {
 public:
  Parser();
  Command parse(int argc, const char* const* argv);

 private:
  CLI::App* add_verb(CLI::App& parent, const char* name, const char* help);
  void refuse_extras(const CLI::App& app) const;
  void finish_verify();
  void finish_bench_nvme() const;

  CLI::App app_{"Trains neural networks larger than device memory.", "strata"};
  TrainArgs train_args_;
  PlanArgs plan_args_;
  VerifyArgs verify_args_;
  PoliciesArgs policies_args_;
  BenchStepArgs bench_step_args_;
  BenchNvmeArgs bench_nvme_args_;
  CLI::App *train_, *plan_, *verify_, *policies_, *bench_, *bench_step_, *bench_nvme_;
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
  plan_ = add_verb(app_, "plan",
                   "Say whether a training run fits its budgets, and what it needs; takes the "
                   "flags of train");
  plan_given_ = add_run(*plan_, plan_args_, kSeedHelp);
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
  policies_ = add_verb(app_, "policies", "List the offload policies");
  Flags(*policies_).json(policies_args_.json);
  bench_ = add_verb(app_, "bench", "Measure");
  bench_step_ =
      add_verb(*bench_, "step", "Time resident training steps against the library's own GEMM");
  Flags bench_flags(*bench_step_);
  add_model(bench_flags, bench_step_args_.model, false);
  add_optimizer(bench_flags, bench_step_args_.optimizer, false);
  bench_flags.group("Measurement");
  bench_flags.count("--seed", bench_step_args_.seed, "Seed of weights and data", 0);
  bench_flags.count("--pairs", bench_step_args_.pairs,
                    "Alternating pairs of measurements; the median counts", 1, 10000);
  add_threads(bench_flags, bench_step_args_.threads);
  bench_flags.json(bench_step_args_.json);

  bench_nvme_ = add_verb(*bench_, "nvme", "Time transfers of the NVMe tier beside fio's");
  Flags nvme_flags(*bench_nvme_);
  BenchNvmeArgs& nvme = bench_nvme_args_;
  nvme_flags.group("Measurement");
  nvme_flags.text("DIR", "", nvme.directory, "Directory on the drive to measure");
  nvme_flags.bytes("--file-size", nvme.file_bytes, "Bytes of the file, written through once");
  nvme_flags.bytes("--block-size", nvme.block_bytes, "Bytes of a transfer");
  nvme_flags.count("--depth", nvme.depth, "Transfers in flight", 1, 1024);
  nvme_flags.count("--pairs", nvme.pairs, "Alternating pairs of measurements; the median counts", 1,
                   10000);
  nvme_flags.real("--seconds", nvme.seconds, "Of one measurement", {0.01, 3600});
  nvme_flags.json(nvme.json);
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
  constexpr uint64_t kPage = 4096, kMost = uint64_t{1} << 30;
  if (a.block_bytes % kPage != 0 || a.block_bytes == 0 || a.block_bytes > kMost) {
    throw ConfigError("--block-size: must be a multiple of 4096 bytes, at most 1 GiB");
  }
  if (a.file_bytes % a.block_bytes != 0 || a.file_bytes / a.block_bytes < uint64_t{8} * a.depth) {
    throw ConfigError("--file-size: must be whole blocks, at least 8 times --depth of them");
  }
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
      throw ConfigError("--json: takes no value");  // the only flag without one
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
        "no verb given; use train, plan, verify, policies or bench, and see 'strata --help'");
  }
  refuse_extras(*chosen.front());
  if (chosen.front() == bench_) {
    if (bench_nvme_->parsed()) {
      refuse_extras(*bench_nvme_);
      finish_bench_nvme();
      return bench_nvme_args_;
    }
    if (!bench_step_->parsed()) {
      throw ConfigError("bench: say what to measure: strata bench step, or strata bench nvme DIR");
    }
    refuse_extras(*bench_step_);
    require_model(bench_step_args_.model, "bench step");
    return bench_step_args_;
  }
  if (chosen.front() == policies_) return policies_args_;
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
  require_model(train_args_.model, "train");
  if (train_args_.data.empty()) {
    throw ConfigError("train: --data is missing; give text files, a pattern or a directory");
  }
  finish(train_args_.optimizer, train_given_, train_args_.steps);
  return train_args_;
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) { return Parser().parse(argc, argv); }

}  // namespace strata
