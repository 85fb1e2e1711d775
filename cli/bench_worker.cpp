#include "cli/bench_worker.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::json;

/// An answer takes seconds, or minutes where a step does; only a stopped process needs longer.
constexpr auto kPatience = std::chrono::minutes(30);

std::string text_of(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<std::string> with_arguments(std::vector<std::string> command,
                                        const BenchWorkerConfig& c) {
  command.emplace_back(kWorkerVerb);
  command.push_back(c.to_json());
  return command;
}

void rethrow_error(const Json& j) {
  if (j.contains("error")) throw Error(j.at("exit_code"), j.at("error"));
}

}  // namespace

const char* name_of(BenchArm a) noexcept {
  constexpr std::array<const char*, 3> kNames = {"step", "OpenMP GEMM", "pool GEMM"};
  return kNames[static_cast<size_t>(a)];
}

std::string BenchWorkerConfig::to_json() const {
  const OptimizerConfig& o = session.optimizer;
  return text_of({{"arm", arm},
                  {"model", session.model},
                  {"batch", session.shape.batch},
                  {"seq", session.shape.seq},
                  {"accum", session.shape.micro_batches},
                  {"dtype", session.dtype},
                  {"recompute", session.recompute},
                  {"optimizer", o.kind},
                  {"beta1", o.beta1},
                  {"beta2", o.beta2},
                  {"eps", o.eps},
                  {"weight_decay", o.weight_decay},
                  {"momentum", o.momentum},
                  {"clip", session.clip},
                  {"seed", session.seed},
                  {"threads", session.threads},
                  {"lr", lr},
                  {"sample_seconds", sample_seconds}});
}

BenchWorkerConfig BenchWorkerConfig::from_json(std::string_view text) {
  BenchWorkerConfig c;
  try {
    const Json j = Json::parse(text);
    SessionConfig& s = c.session;
    OptimizerConfig& o = s.optimizer;
    j.at("arm").get_to(c.arm);
    j.at("model").get_to(s.model);
    j.at("batch").get_to(s.shape.batch);
    j.at("seq").get_to(s.shape.seq);
    j.at("accum").get_to(s.shape.micro_batches);
    j.at("dtype").get_to(s.dtype);
    j.at("recompute").get_to(s.recompute);
    j.at("optimizer").get_to(o.kind);
    j.at("beta1").get_to(o.beta1);
    j.at("beta2").get_to(o.beta2);
    j.at("eps").get_to(o.eps);
    j.at("weight_decay").get_to(o.weight_decay);
    j.at("momentum").get_to(o.momentum);
    j.at("clip").get_to(s.clip);
    j.at("seed").get_to(s.seed);
    j.at("threads").get_to(s.threads);
    j.at("lr").get_to(c.lr);
    j.at("sample_seconds").get_to(c.sample_seconds);
  } catch (const Json::exception& e) {
    throw StateError(fmt::format("bench worker: its configuration cannot be read: {}", e.what()));
  }
  return c;
}

std::string BenchSample::to_json() const {
  return text_of({{"flops_per_second", rates.flops_per_second},
                  {"packed_flops_per_second", rates.packed_flops_per_second},
                  {"wall_seconds", wall_seconds},
                  {"cpu_seconds", cpu_seconds},
                  {"others_share", others_share ? Json(*others_share) : Json(nullptr)},
                  {"idle_seconds", idle_seconds},
                  {"idle_cpu_seconds", idle_cpu_seconds}});
}

BenchSample BenchSample::from_json(std::string_view text) {
  BenchSample s;
  try {
    const Json j = Json::parse(text);
    rethrow_error(j);
    j.at("flops_per_second").get_to(s.rates.flops_per_second);
    j.at("packed_flops_per_second").get_to(s.rates.packed_flops_per_second);
    j.at("wall_seconds").get_to(s.wall_seconds);
    j.at("cpu_seconds").get_to(s.cpu_seconds);
    if (!j.at("others_share").is_null()) s.others_share = j.at("others_share").get<double>();
    j.at("idle_seconds").get_to(s.idle_seconds);
    j.at("idle_cpu_seconds").get_to(s.idle_cpu_seconds);
  } catch (const Json::exception& e) {
    throw StateError(fmt::format("bench worker: its answer cannot be read: {}", e.what()));
  }
  return s;
}

std::string bench_error_json(const std::string& what, int exit_code) {
  return text_of({{"error", what}, {"exit_code", exit_code}});
}

BenchWorker::BenchWorker(const BenchWorkerConfig& c, std::vector<std::string> command)
    : process_(name_of(c.arm), with_arguments(std::move(command), c),
               // How its OpenMP team waits is ours to say: it must sleep while others measure.
               {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
  const std::string line = process_.receive(kPatience);
  try {
    const Json j = Json::parse(line);
    rethrow_error(j);
    j.at("about").get_to(about_);
  } catch (const Json::exception& e) {
    throw StateError(fmt::format("bench worker: its greeting cannot be read: {}", e.what()));
  }
}

BenchSample together(std::span<const BenchSample> samples) {
  BenchSample all;
  double flops = 0, packed = 0;
  for (const BenchSample& s : samples) {
    flops += s.rates.flops_per_second * s.wall_seconds;
    packed += s.rates.packed_flops_per_second * s.wall_seconds;
    all.wall_seconds += s.wall_seconds;
    all.cpu_seconds += s.cpu_seconds;
    all.idle_seconds += s.idle_seconds;
    all.idle_cpu_seconds += s.idle_cpu_seconds;
    all.others_share = std::max(all.others_share, s.others_share);
  }
  all.rates = {flops / all.wall_seconds, packed / all.wall_seconds};
  return all;
}

BenchSample BenchWorker::measure() {
  process_.send(kWorkerGo);
  return BenchSample::from_json(process_.receive(kPatience));
}

}  // namespace strata
