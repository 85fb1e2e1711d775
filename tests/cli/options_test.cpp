#include "cli/options.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "runtime/errors.hpp"
#include "train/session.hpp"

namespace strata {
namespace {

/// Words are separated by spaces; '' is an empty word.
Command parse(const std::string& line) {
  std::vector<std::string> words = {"strata"};
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word == "''" ? "" : word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

template <class T>
T parse_as(const std::string& line) {
  return std::get<T>(parse(line));
}

TrainArgs train(const std::string& flags) {
  return parse_as<TrainArgs>("train --model gpt2 --data x.txt " + flags);
}

std::string error(const std::string& line) {
  try {
    parse(line);
  } catch (const ConfigError& e) {
    EXPECT_EQ(e.exit_code(), 2);
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << line;
  return "";
}

std::string train_error(const std::string& flags) {
  return error("train --model gpt2 --data x.txt " + flags);
}

std::string help(const std::string& line) { return parse_as<TextRequest>(line).text; }

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(Options, TrainHasSensibleDefaults) {
  const TrainArgs a = train("");
  EXPECT_EQ(a.model.model, "gpt2");
  EXPECT_EQ(a.data, std::vector<std::string>{"x.txt"});
  EXPECT_EQ(a.model.seq, 0u);
  EXPECT_EQ(a.model.batch, 8u);
  EXPECT_EQ(a.model.accum, 1u);
  EXPECT_EQ(a.model.dtype, DType::f32);
  EXPECT_EQ(a.model.recompute, 0u);
  EXPECT_EQ(a.steps, 1000u);
  EXPECT_EQ(a.seed, 1u);
  EXPECT_EQ(a.out, "out");
  EXPECT_FALSE(a.json);
  EXPECT_EQ(a.optimizer.config.kind, OptimizerKind::adamw);
  EXPECT_DOUBLE_EQ(a.optimizer.min_lr, a.optimizer.lr / 10);
  EXPECT_EQ(a.optimizer.warmup, 50u);
  EXPECT_EQ(a.optimizer.clip, 1.0);
  EXPECT_FALSE(a.budget.device_mem.has_value());
  EXPECT_FALSE(a.budget.host_mem.has_value());
  EXPECT_EQ(a.budget.chunk_bytes, 0u);
  EXPECT_EQ(a.budget.policy, "auto");
  EXPECT_EQ(a.budget.threads, 0u);
}

TEST(Options, TrainTakesEveryFlag) {
  const auto a = parse_as<TrainArgs>(
      "train --model gpt2:L6,D384,H6,V256,T128 --data a b* --data c --seq 128 --batch 4 --accum 2 "
      "--steps 200 --lr 1e-3 --min-lr 1e-5 --warmup 7 --beta1 0.8 --beta2 0.99 --eps 1e-6 "
      "--weight-decay 0.2 --clip 0 --dtype bf16 --optimizer sgd --seed 9 --device-mem -2GiB "
      "--host-mem 10% --chunk-size 4MiB --policy static:w=0.5,o=0.25 --recompute block --threads 3 "
      "--out runs/a --json");
  EXPECT_EQ(a.model.model, "gpt2:L6,D384,H6,V256,T128");
  EXPECT_EQ(a.data, (std::vector<std::string>{"a", "b*", "c"}));
  EXPECT_EQ(a.model.seq, 128u);
  EXPECT_EQ(a.model.batch, 4u);
  EXPECT_EQ(a.model.accum, 2u);
  EXPECT_EQ(a.steps, 200u);
  EXPECT_EQ(a.optimizer.lr, 1e-3);
  EXPECT_EQ(a.optimizer.min_lr, 1e-5);
  EXPECT_EQ(a.optimizer.warmup, 7u);
  EXPECT_EQ(a.optimizer.config.beta1, 0.8);
  EXPECT_EQ(a.optimizer.config.beta2, 0.99);
  EXPECT_EQ(a.optimizer.config.eps, 1e-6);
  EXPECT_EQ(a.optimizer.config.weight_decay, 0.2);
  EXPECT_EQ(a.optimizer.clip, 0);
  EXPECT_EQ(a.model.dtype, DType::bf16);
  EXPECT_EQ(a.optimizer.config.kind, OptimizerKind::sgd);
  EXPECT_EQ(a.seed, 9u);
  EXPECT_EQ(a.budget.device_mem, Size::all_but(2ull << 30));
  EXPECT_EQ(a.budget.host_mem, Size::percent(10));
  EXPECT_EQ(a.budget.chunk_bytes, 4u << 20);
  EXPECT_EQ(a.budget.policy, "static:w=0.5,o=0.25");
  EXPECT_EQ(a.model.recompute, kAllBlocks);
  EXPECT_EQ(train("--recompute 5").model.recompute, 5u);
  EXPECT_EQ(a.budget.threads, 3u);
  EXPECT_EQ(a.out, "runs/a");
  EXPECT_TRUE(a.json);
}

TEST(Options, DefaultsFollowOtherFlags) {
  EXPECT_DOUBLE_EQ(train("--lr 0.5").optimizer.min_lr, 0.05);
  EXPECT_EQ(train("--steps 40").optimizer.warmup, 2u);
  EXPECT_EQ(train("--steps 40 --warmup 0").optimizer.warmup, 0u);
  EXPECT_EQ(train("--min-lr 0").optimizer.min_lr, 0);
  EXPECT_EQ(train("--chunk-size auto").budget.chunk_bytes, 0u);
  EXPECT_EQ(train("--batch=3").model.batch, 3u);
}

TEST(Options, DataMayBeNamedLikeAVerb) {
  EXPECT_EQ(train("--data plan verify").data,
            (std::vector<std::string>{"x.txt", "plan", "verify"}));
}

TEST(Options, PlanAndVerifyTakeTheFlagsOfTrain) {
  const std::string flags = " --model gpt2 --data x --steps 20 --lr 0.1 --device-mem 1GiB";
  const auto plan = parse_as<PlanArgs>("plan" + flags);
  EXPECT_EQ(plan.steps, 20u);
  EXPECT_EQ(plan.budget.device_mem, Size::bytes(1ull << 30));
  EXPECT_DOUBLE_EQ(plan.optimizer.min_lr, 0.01);
  EXPECT_EQ(plan.optimizer.warmup, 1u);
  EXPECT_NO_THROW(parse_as<PlanArgs>("plan --model gpt2")) << "data is optional";
  const auto verify = parse_as<VerifyArgs>("verify" + flags);
  EXPECT_EQ(verify.steps, 20u);
  EXPECT_EQ(verify.random, 0u);
  EXPECT_LE(parse_as<VerifyArgs>("verify --model gpt2").steps, 10u);
}

TEST(Options, VerifyIsGivenAModelOrRandom) {
  const auto a = parse_as<VerifyArgs>("verify --random 40 --seed 3 --json");
  EXPECT_EQ(a.random, 40u);
  EXPECT_EQ(a.seed, 3u);
  EXPECT_TRUE(a.json);
  EXPECT_CONTAINS(error("verify"), "--random N");
  for (const char* flag : {"--model gpt2", "--device-mem 1MiB", "--dtype bf16", "--data t.txt"}) {
    EXPECT_CONTAINS(error("verify --random 3 " + std::string(flag)), "leave out");
  }
  EXPECT_CONTAINS(error("verify --random 0"), "--random: '0'");
}

TEST(Options, BenchStepAndPolicies) {
  const auto a = parse_as<BenchStepArgs>(
      "bench step --model gpt2 --seq 256 --batch 4 --dtype bf16 --threads 2 --pairs 3 --json");
  EXPECT_EQ(a.model.model, "gpt2");
  EXPECT_EQ(a.model.seq, 256u);
  EXPECT_EQ(a.model.batch, 4u);
  EXPECT_EQ(a.model.dtype, DType::bf16);
  EXPECT_EQ(a.threads, 2u);
  EXPECT_EQ(a.pairs, 3u);
  EXPECT_TRUE(a.json);
  EXPECT_EQ(parse_as<BenchStepArgs>("bench step --model gpt2").pairs, 7u);
  EXPECT_FALSE(parse_as<PoliciesArgs>("policies").json);
  EXPECT_TRUE(parse_as<PoliciesArgs>("policies --json").json);
  EXPECT_CONTAINS(error("bench"), "strata bench step");
  EXPECT_CONTAINS(error("bench stpe"), "did you mean 'step'");
  EXPECT_CONTAINS(error("bench step"), "--model is missing");
}

TEST(Options, Trace) {
  const auto a = parse_as<TraceArgs>(
      "trace --model gpt2 --seq 256 --batch 4 --dtype bf16 --threads 2 --out gpt2.trace");
  EXPECT_EQ(a.model.model, "gpt2");
  EXPECT_EQ(a.model.seq, 256u);
  EXPECT_EQ(a.model.batch, 4u);
  EXPECT_EQ(a.model.dtype, DType::bf16);
  EXPECT_EQ(a.threads, 2u);
  EXPECT_EQ(a.out, "gpt2.trace");
  EXPECT_EQ(parse_as<TraceArgs>("trace --model gpt2 -o x").out, "x");
  EXPECT_EQ(parse_as<TraceArgs>("trace --model gpt2 -o -").out, "-");
  EXPECT_EQ(parse_as<TraceArgs>("trace --model gpt2").out, "-");
  EXPECT_CONTAINS(error("trace"), "trace: --model is missing");
  EXPECT_CONTAINS(error("trace --model gpt2 --out ''"), "the value is empty");
  for (const char* flag : {"--device-mem 1GiB", "--accum 2", "--recompute block", "--policy lru"}) {
    EXPECT_CONTAINS(error(std::string("trace --model gpt2 ") + flag), "unknown flag");
  }
}

TEST(Options, Sim) {
  const auto plain = parse_as<SimArgs>("sim t --device-mem 24GiB");
  EXPECT_EQ(plain.trace, "t");
  EXPECT_EQ(plain.device_mem, std::vector<uint64_t>{uint64_t{24} << 30});
  EXPECT_EQ(plain.host_mem + plain.nvme_mem, 0u);
  EXPECT_TRUE(plain.policies.empty());
  EXPECT_TRUE(plain.tokens.empty());
  EXPECT_EQ(plain.steps, 24u);
  EXPECT_EQ(plain.clip, 1.0);
  EXPECT_EQ(plain.format, SimFormat::text);
  // Flags that may come several times take one value each, so the trace may come last.
  const auto a = parse_as<SimArgs>(
      "sim --device-mem 1GiB --device-mem 2GiB --tokens 5 --tokens 7 --host-mem 3MiB --nvme-mem 4 "
      "--accum 6 --recompute 2 --chunk-size 8KiB --optimizer sgd --clip 0 --steps 9 --format csv "
      "--machine m.json --policy static:w=0.5,o=0.25 --policy lru t");
  EXPECT_EQ(a.trace, "t");
  EXPECT_EQ(a.policies, (std::vector<std::string>{"static:w=0.5,o=0.25", "lru"}));
  EXPECT_EQ(a.device_mem, (std::vector<uint64_t>{1u << 30, uint64_t{2} << 30}));
  EXPECT_EQ(a.tokens, (std::vector<uint64_t>{5, 7}));
  EXPECT_EQ(a.host_mem, 3u << 20);
  EXPECT_EQ(a.nvme_mem, 4u);
  EXPECT_EQ(a.accum, 6u);
  EXPECT_EQ(a.recompute, 2u);
  EXPECT_EQ(a.chunk_bytes, 8192u);
  EXPECT_EQ(a.optimizer.kind, OptimizerKind::sgd);
  EXPECT_EQ(a.clip, 0.0);
  EXPECT_EQ(a.steps, 9u);
  EXPECT_EQ(a.format, SimFormat::csv);
  EXPECT_EQ(a.machine, "m.json");
  EXPECT_CONTAINS(error("sim t --device-mem 1GiB --host-mem 1GiB --host-mem 2GiB"),
                  "--host-mem: given more than once");
}

TEST(Options, NvmeTier) {
  const auto a = parse_as<TrainArgs>(
      "train --model gpt2 --data t --nvme /a,/b --nvme-mem 2GiB --nvme-engine threads");
  EXPECT_EQ(a.budget.nvme, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(a.budget.nvme_engine, "threads");
  EXPECT_TRUE(a.budget.nvme_mem.has_value());
  EXPECT_CONTAINS(error("train --model gpt2 --data t --nvme /a,,/b"), "empty item");
  EXPECT_CONTAINS(error("train --model gpt2 --data t --nvme-engine aio"), "io_uring, threads");
  EXPECT_FALSE(a.budget.nvme_unchecked);
  EXPECT_TRUE(parse_as<TrainArgs>("train --model gpt2 --data t --nvme-checksums off")
                  .budget.nvme_unchecked);
  EXPECT_FALSE(
      parse_as<TrainArgs>("train --model gpt2 --data t --nvme-checksums on").budget.nvme_unchecked);
  EXPECT_CONTAINS(error("train --model gpt2 --data t --nvme-checksums some"), "on, off");
}

TEST(Options, OptimizerOverlap) {
  EXPECT_EQ(parse_as<TrainArgs>("train --model gpt2 --data t").budget.overlap,
            OptimizerOverlap::automatic);
  for (const OptimizerOverlap o :
       {OptimizerOverlap::automatic, OptimizerOverlap::none, OptimizerOverlap::forward,
        OptimizerOverlap::backward, OptimizerOverlap::speculative}) {
    const std::string flag = std::string(" --optimizer-overlap ") + name_of(o);
    EXPECT_EQ(parse_as<TrainArgs>("train --model gpt2 --data t" + flag).budget.overlap, o);
  }
  EXPECT_CONTAINS(error("train --model gpt2 --data t --optimizer-overlap late"), "speculative");
}

TEST(Options, BenchNvme) {
  const auto a = parse_as<BenchNvmeArgs>(
      "bench nvme /mnt/a --file-size 64MiB --block-size 256KiB --depth 8 --pairs 3 --seconds 0.5");
  EXPECT_EQ(a.directory, "/mnt/a");
  EXPECT_EQ(a.file_bytes, 64u << 20);
  EXPECT_EQ(a.block_bytes, 256u << 10);
  EXPECT_EQ(a.depth, 8u);
  EXPECT_EQ(a.pairs, 3u);
  EXPECT_EQ(a.seconds, 0.5);
  EXPECT_CONTAINS(error("bench nvme"), "DIR is missing");
  EXPECT_CONTAINS(error("bench nvme d --blok-size 4KiB"), "did you mean '--block-size'");
  EXPECT_CONTAINS(error("bench nvme d --block-size 5000"), "multiple of 4096");
  EXPECT_CONTAINS(error("bench nvme d --block-size 0"), "multiple of 4096");
  EXPECT_CONTAINS(error("bench nvme d --file-size 1000000"), "whole blocks");
  EXPECT_CONTAINS(error("bench nvme d --file-size 16MiB"), "at least 8 times --depth");
  EXPECT_CONTAINS(error("bench nvme d e"), "'e' belongs to no flag");
}

TEST(Options, BenchAdam) {
  const auto a = parse_as<BenchAdamArgs>("bench adam --threads 3 --bytes 2MiB --pairs 4 --json");
  EXPECT_EQ(a.threads, 3u);
  EXPECT_EQ(a.bytes, 2u << 20);
  EXPECT_EQ(a.pairs, 4u);
  EXPECT_TRUE(a.json);
  const auto b = parse_as<BenchAdamArgs>("bench adam");
  EXPECT_EQ(b.threads, 0u);
  EXPECT_EQ(b.bytes, 1u << 30);
  EXPECT_EQ(b.pairs, 15u);
  EXPECT_CONTAINS(error("bench"), "strata bench adam");
  EXPECT_CONTAINS(error("bench adma"), "did you mean 'adam'");
  EXPECT_CONTAINS(error("bench adam --bytes 0"), "--bytes: must be 1 MiB");
  EXPECT_CONTAINS(error("bench adam --bytes 2000TiB"), "--bytes: must be 1 MiB");
  EXPECT_CONTAINS(error("bench adam --pairs 0"), "--pairs: '0'");
  EXPECT_CONTAINS(error("bench adam --threads 0"), "--threads: '0'");
  EXPECT_CONTAINS(error("bench adam --pair 3"), "did you mean '--pairs'");
  EXPECT_CONTAINS(error("bench adam d"), "'d' belongs to no flag");
}

TEST(Options, HelpAndVersionAreTexts) {
  EXPECT_CONTAINS(help("--help"), "verify");
  EXPECT_CONTAINS(help("-h"), "policies");
  EXPECT_CONTAINS(help("train --help"), "--device-mem");
  EXPECT_CONTAINS(help("train --help"), "[1000]");
  EXPECT_CONTAINS(help("verify --help"), "--random");
  EXPECT_CONTAINS(help("bench step --help"), "--pairs");
  EXPECT_CONTAINS(help("bench adam --help"), "--bytes");
  EXPECT_EQ(help("plan --help").find("--random"), std::string::npos);
  EXPECT_EQ(help("--version").find("strata "), 0u);
}

TEST(Options, EveryTrainingFlagIsExplained) {
  for (const char* verb : {"train", "plan", "verify"}) {
    const std::string text = help(std::string(verb) + " --help");
    for (const char* flag :
         {"--model",     "--data",      "--seq",          "--batch",    "--accum",
          "--steps",     "--lr",        "--min-lr",       "--warmup",   "--beta1",
          "--beta2",     "--eps",       "--weight-decay", "--clip",     "--dtype",
          "--optimizer", "--seed",      "--device-mem",   "--host-mem", "--chunk-size",
          "--policy",    "--recompute", "--threads",      "--out",      "--json"}) {
      EXPECT_CONTAINS(text, std::string(flag) + " ");
    }
  }
}

TEST(Options, UnknownVerbsAndFlagsGetTheNearestKnownOne) {
  EXPECT_CONTAINS(error("trian"), "unknown verb 'trian'; did you mean 'train'");
  EXPECT_CONTAINS(error("zzzzzzz"), "see 'strata --help'");
  EXPECT_CONTAINS(error(""), "no verb");
  EXPECT_CONTAINS(error("--jsno"), "unknown flag '--jsno'");
  EXPECT_CONTAINS(train_error("--devce-mem 2GiB"), "did you mean '--device-mem'");
  EXPECT_CONTAINS(train_error("--batchsize=2"), "unknown flag '--batchsize'");
  EXPECT_CONTAINS(train_error("--random 3"), "unknown flag '--random'");
  EXPECT_CONTAINS(error("plan --model gpt2 extra"), "'extra' belongs to no flag");
  EXPECT_CONTAINS(error("policies extra"), "'extra' belongs to no flag");
}

TEST(Options, MissingAndRepeatedValues) {
  EXPECT_CONTAINS(error("train --data x"), "--model is missing");
  EXPECT_CONTAINS(error("plan"), "--model is missing");
  EXPECT_CONTAINS(error("train --model gpt2"), "--data is missing");
  EXPECT_CONTAINS(error("train --model gpt2 --data"), "--data: needs a value");
  EXPECT_CONTAINS(train_error("--batch"), "--batch: needs a value");
  EXPECT_CONTAINS(train_error("--batch 2 --batch 2"), "--batch: given more than once");
  EXPECT_CONTAINS(train_error("--json=3"), "--json: takes no value");
  EXPECT_CONTAINS(train_error("--out ''"), "--out: the value is empty");
}

TEST(Options, RangesAreChecked) {
  for (const char* flags : {"--seq 0",         "--batch 0",      "--batch x",
                            "--batch 1.5",     "--batch -1",     "--batch 99999999999",
                            "--accum 0",       "--steps 0",      "--steps -3",
                            "--lr -1",         "--lr inf",       "--lr nan",
                            "--lr 1e-3x",      "--min-lr -1",    "--warmup -1",
                            "--beta1 1",       "--beta1 -0.1",   "--beta2 1",
                            "--beta2 2",       "--eps 0",        "--weight-decay -1",
                            "--clip -1",       "--dtype fp16",   "--optimizer adam",
                            "--seed -1",       "--seed 1.5",     "--device-mem 2G",
                            "--host-mem 110%", "--chunk-size 0", "--chunk-size 10%",
                            "--recompute all", "--recompute -1", "--threads 0",
                            "--threads 5000"}) {
    const std::string flag = std::string(flags).substr(0, std::string(flags).find(' '));
    const std::string value = std::string(flags).substr(flag.size() + 1);
    const std::string message = train_error(flags);
    EXPECT_EQ(message.find(flag + ": "), 0u) << message;
    const bool shown = message.find("'" + value + "'") != std::string::npos;
    EXPECT_TRUE(shown || value == "0") << message;
  }
  EXPECT_CONTAINS(train_error("--dtype fp16"), "fp32, bf16");
  EXPECT_CONTAINS(train_error("--beta1 1"), "of at least 0 and below 1");
  EXPECT_CONTAINS(train_error("--batch 0"), "a whole number from 1");
  EXPECT_CONTAINS(train_error("--lr 1e-4 --min-lr 1e-3"), "above --lr");
  EXPECT_CONTAINS(train_error("--steps 10 --warmup 11"), "more than --steps");
  EXPECT_EQ(train("--seed 18446744073709551615").seed, ~0ull);
  EXPECT_EQ(train("--beta1 0").optimizer.config.beta1, 0);
}

}  // namespace
}  // namespace strata
