// The toy model with everything around it that an engine needs, driven step by step.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "offload/planner.hpp"
#include "tests/offload/nvme/nvme_rig.hpp"
#include "tests/offload/toy_model.hpp"

namespace strata::toy {

/// Specifications: every policy by its name, then more.
inline std::vector<std::string> every_policy(std::initializer_list<const char*> more = {}) {
  std::vector<std::string> out;
  for (const PolicyInfo& p : policies()) out.emplace_back(p.name);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// The same without the policy that never moves anything.
inline std::vector<std::string> every_moving_policy(std::initializer_list<const char*> more = {}) {
  std::vector<std::string> out = every_policy(more);
  std::erase(out, "resident");
  return out;
}

struct Config {
  Shape shape;
  uint32_t steps = 4, accum = 1, threads = 1;
  uint64_t chunk_elems = 2048;
  double clip = 0.5, lr = 0.01;
  OptimizerConfig optimizer;
  std::string policy = "resident";
  /// 0: the smallest budget that fits; 1: everything; between: a fraction of the way.
  double memory = 1;
  /// Share of what lives below the device that the host holds; the rest is on NVMe.
  double host_share = 1;
  std::string nvme_engine = "auto";
  uint32_t nvme_directories = 1;
  bool recompute = false;
  MicroBatchOrder order = MicroBatchOrder::horizontal;
  OptimizerOverlap overlap = OptimizerOverlap::automatic;
  uint64_t delay_seed = 0;
  uint32_t max_delay_microseconds = 100;
  /// Evaluate after every second step, while updates are pending; between the others steps follow
  /// each other, which takes the most memory.
  bool evaluate = false;
  /// Replaces the plan's actions.
  std::function<void(const std::vector<const Program*>&, Plan&)> tamper;
  Mutations mutations;
  bool virtual_time = false;
  uint32_t run_ahead = 64;
  bool keep_log = true;
  /// Training steps whose timeline is recorded.
  StepWindow record;
};

/// Layout, programs and plans of a configuration: all that needs no memory.
class Plans {
 public:
  explicit Plans(const Config&);

  PlanInput input(const Budgets&) const;
  /// Under budgets between the smallest and the largest useful, as `Config::memory` says.
  Budgets budgets() const;

  Config config;
  Model model;
  ChunkLayout layout;
  Program train, eval;
  std::vector<const Program*> programs;
  StateShape shape;
  std::unique_ptr<Updater> updater;
  std::unique_ptr<Policy> policy;
};

/// An engine under the budgets that the configuration asks for, weights initialised.
class Rig {
 public:
  explicit Rig(const Config&);

  void step(uint64_t s);
  /// On the batch that was filled last.
  void evaluate() { run(1, {}); }
  /// Fills the batch of the step, which `run` then uses. What last used the batch of `s - 2` must
  /// be done: a result of its step was read.
  void fill_batch(uint64_t s);
  /// Runs a program on the batch that was filled last.
  void run(uint32_t program, const StepParams&);
  /// One plane of one tensor, as bytes.
  std::vector<std::byte> read(ParamId, Plane);
  /// Every plane of every tensor.
  std::vector<std::vector<std::byte>> state();
  StepParams params_of(uint64_t s) const;

  Plans plans;
  Budgets budgets;
  PlanResult planned;
  Plan plan;
  IssueLog log;
  Ledger ledger;
  std::unique_ptr<testing::TemporaryDirectories> directories;
  std::unique_ptr<NvmeStore> store;    // where something lives on NVMe
  std::unique_ptr<Timeline> timeline;  // where steps are to be recorded
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Engine> engine;
};

}  // namespace strata::toy
