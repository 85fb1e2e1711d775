#include "cli/flag_groups.hpp"

#include "train/session.hpp"

namespace strata {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void add_micro_batch(Flags& flags, ModelArgs& args) {
  flags.group("Model and batch");
  flags.text("--model", "NAME", args.model,
             "A preset (gpt2, gpt2-medium, gpt2-large, gpt2-xl) or a shape like "
             "gpt2:L6,D384,H6,V256,T128");
  flags.count("--seq", args.seq, "Tokens of a sequence", 1, 1u << 24, "all positions of the model");
  flags.count("--batch", args.batch, "Sequences of a micro-batch", 1, 1u << 24);
  flags.choice("--dtype", args.dtype, std::array<std::string_view, 2>{"fp32", "bf16"},
               "Type of weights, activations and gradients");
}

void add_model(Flags& flags, ModelArgs& args, bool with_recompute) {
  add_micro_batch(flags, args);
  flags.count("--accum", args.accum, "Micro-batches of a step", 1, 1u << 24);
  if (with_recompute) add_recompute(flags, args.recompute);
  if (with_recompute) add_order(flags, args.order);
}

void add_order(Flags& flags, std::optional<MicroBatchOrder>& order) {
  flags.value(
      "--schedule", "auto|horizontal|vertical", "auto",
      "With --accum: one micro-batch after the other, or all of a block together, so that "
      "weights move once a step",
      [&order](const std::string& text) {
        if (text == "horizontal") {
          order = MicroBatchOrder::horizontal;
        } else if (text == "vertical") {
          order = MicroBatchOrder::vertical;
        } else if (text != "auto") {
          throw ConfigError("--schedule: '" + text + "' is not auto, horizontal or vertical");
        }
      });
}

void add_chunk_size(Flags& flags, uint64_t& bytes) {
  flags.value("--chunk-size", "auto|BYTES", "auto", "Bytes of a chunk of weights",
              [&bytes](const std::string& text) {
                bytes = text == "auto" ? 0 : parse_bytes("--chunk-size", text);
                if (text != "auto" && bytes == 0) {
                  throw ConfigError("--chunk-size: must not be 0");
                }
              });
}

void add_objective(Flags& flags, Objective& objective) {
  flags.choice("--objective", objective, std::array<std::string_view, 2>{"time", "bytes"},
               "What policy auto makes least: the step, or what is moved, by the time it takes");
}

void add_checksums(Flags& flags, bool& unchecked) {
  flags.choice("--nvme-checksums", unchecked, std::array<std::string_view, 2>{"on", "off"},
               "Whether what is read from NVMe is compared with a hash of what was written, which "
               "takes processor time");
}

void add_overlap(Flags& flags, OptimizerOverlap& overlap) {
  flags.choice(
      "--optimizer-overlap", overlap,
      std::array<std::string_view, 5>{"auto", "none", "forward", "backward", "speculative"},
      "When updates run: at the end of a step, beside the next forward or the backward "
      "pass; there before the norm to clip by is known, and again where it clips; auto "
      "takes what is predicted to be fastest");
}

void add_recompute(Flags& flags, uint32_t& blocks) {
  flags.value(
      "--recompute", "none|block|N", "none",
      "What backward computes again instead of keeping: nothing, every block, or the first "
      "N blocks",
      [&blocks](const std::string& text) {
        if (text == "none" || text == "block") {
          blocks = text == "none" ? 0 : kAllBlocks;
        } else if (text.find_first_not_of("0123456789") != std::string::npos) {
          throw ConfigError("--recompute: '" + text + "' is not none, block or a number of blocks");
        } else {
          blocks = static_cast<uint32_t>(parse_count("--recompute", text, 0, 1u << 24));
        }
      });
}

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
  add_checksums(flags, args.nvme_unchecked);
  add_chunk_size(flags, args.chunk_bytes);
  flags.text("--policy", "NAME", args.policy, "Offload policy; `strata policies` lists them");
  add_objective(flags, args.objective);
  add_overlap(flags, args.overlap);
  flags.text("--machine", "FILE", args.machine,
             "Machine file, as `strata probe` writes, whose rates are planned with");
  add_threads(flags, args.threads);
}

void add_saving(Flags& flags, SaveArgs& args) {
  flags.group("Checkpoints");
  flags.count("--checkpoint-every", args.every,
              "Steps between checkpoints in OUT/checkpoints; there is one at the end, and when "
              "stopped, in any case",
              1, kNoLimit, "off");
  flags.count("--keep-last", args.keep_last, "Newest checkpoints to keep", 1);
  flags.count("--keep-every", args.keep_every, "Also keep those of multiples of N steps", 1,
              kNoLimit, "off");
  flags.flag("--no-checkpoint", args.off, "Save nothing, not even at the end");
  flags.value(
      "--max-time", "TIME", "no limit", "Save and stop (exit 75) after so long: 90s, 30m, 2h",
      [&args](const std::string& t) { args.max_seconds = parse_duration("--max-time", t); });
  flags.flag("--allow-inexact", args.allow_inexact,
             "Resume although something that decides bits differs");
}

void add_observing(Flags& flags, ObserveArgs& args) {
  flags.group("Observing");
  flags.value("--trace-steps", "A..B", "none",
              "Record what every stream does in these steps, into OUT/trace.json",
              [&args](const std::string& text) {
                const size_t dots = text.find("..");
                const std::string last = dots == std::string::npos ? text : text.substr(dots + 2);
                args.first_step = parse_count("--trace-steps", text.substr(0, dots), 1, kNoLimit);
                args.last_step = parse_count("--trace-steps", last, args.first_step, kNoLimit);
              });
  flags.flag("--advice", args.advice,
             "Predict what would shorten the step, even where less than 2 % of it is stalled");
}

Given add_run(CLI::App& app, RunArgs& args, const char* seed_help) {
  Flags flags(app);
  add_model(flags, args.model, true);
  flags.group("Run");
  flags.list("--data", "FILE|GLOB|DIR", args.data,
             "UTF-8 text or .bin token shards: files, patterns or directories; the last tenth is "
             "for validation");
  flags.count("--steps", args.steps, "Training steps", 1);
  flags.count("--seed", args.seed, seed_help, 0);
  flags.count("--eval-every", args.evaluate_every, "Steps between evaluations", 1, kNoLimit,
              "a tenth of --steps");
  flags.count("--eval-batches", args.evaluate_batches, "Most batches of an evaluation", 1);
  flags.text("--out", "DIR", args.out, "Where metrics.jsonl and checkpoints go");
  const Given given = add_optimizer(flags, args.optimizer, true);
  add_budget(flags, args.budget);
  add_saving(flags, args.save);
  add_observing(flags, args.observe);
  flags.json(args.json);
  return given;
}

}  // namespace strata
