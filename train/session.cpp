#include "train/session.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "models/registry.hpp"
#include "runtime/errors.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

uint64_t chunk_elems_of(const SessionConfig& c, const Model& model) {
  if (c.chunk_bytes == 0) return ChunkLayout::search_chunk_elems(model.params(), 1);
  const uint64_t elems = c.chunk_bytes / size_of(c.dtype);
  constexpr uint64_t q = ChunkLayout::kQuantum;
  return std::max(q, (elems + q - 1) / q * q);
}

}  // namespace

Workload::Workload(const SessionConfig& config) : config_(config) {
  model_ = make_model(config.model, {config.shape, config.dtype, config.threads});
  layout_ = ChunkLayout::build(model_->params(), {chunk_elems_of(config, *model_), 1});
  Schedule schedule{config.shape.micro_batches, {}};
  for (uint32_t b = 0; b < model_->blocks(); ++b) {
    schedule.recompute.push_back(config.recompute && model_->recomputable(b));
  }
  const auto lower = [&](Mode mode, const Schedule& s) {
    programs_.push_back(
        std::make_unique<Program>(Program::lower(trace_model(*model_, mode), *layout_, s)));
  };
  lower(Mode::train, schedule);
  if (config.evaluates) lower(Mode::eval, {1, {}});
  updater_ = make_updater(config.optimizer, layout_->params());
  policy_ = make_policy(config.policy);
  shape_.emplace(*layout_, *programs_.front(), config.optimizer);
}

PlanInput Workload::plan_input(const Budgets& budgets) const {
  std::vector<const Program*> programs;
  for (const auto& p : programs_) programs.push_back(p.get());
  return {*layout_, *shape_, std::move(programs), *policy_, *updater_, budgets, config_.clip, {}};
}

uint64_t Workload::state_bytes() const noexcept {
  uint64_t units = 0;
  for (ChunkId c = 0; c < layout_->chunks(); ++c) units += shape_->chunk_units(c);
  return units * shape_->unit_bytes();
}

uint64_t Workload::weight_bytes() const noexcept {
  return layout_->chunks() * shape_->unit_bytes();
}

std::string Workload::numerics_key(uint64_t data_hash, const LrSchedule& lr) const {
  const SessionConfig& c = config_;
  const auto number = [](double x) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, x).ptr);
  };
  std::string key =
      "model=" + model_name(c.model) + " dtype=" + name_of(c.dtype) +
      " batch=" + std::to_string(c.shape.batch) + " seq=" + std::to_string(c.shape.seq) +
      " accum=" + std::to_string(c.shape.micro_batches) + " seed=" + std::to_string(c.seed) +
      " data=" + std::to_string(data_hash) + " clip=" + number(c.clip);
  const OptimizerConfig& o = c.optimizer;
  key += o.kind == OptimizerKind::adamw
             ? " adamw=" + number(o.beta1) + "," + number(o.beta2) + "," + number(o.eps)
             : " sgd=" + number(o.momentum);
  return key + " decay=" + number(o.weight_decay) + " lr=" + number(lr.lr) + "," +
         number(lr.min_lr) + " warmup=" + std::to_string(lr.warmup) +
         " steps=" + std::to_string(lr.steps) + " ranks=1 kernels=" + kernel_set();
}

Session::Session(const Workload& workload, const PlanResult& plan, const Budgets& budgets,
                 const RunOptions& options)
    : workload_(workload),
      plan_(plan.plan),
      input_(workload.plan_input(budgets)),
      ledger_(budgets.bytes) {
  if (!plan.fits) throw DoesNotFit(describe_shortfall(plan));
  for (size_t t = 0; t < kTiers; ++t) {
    external_.push_back(
        ledger_.reserve(static_cast<Tier>(t), Category::external, budgets.external[t]));
  }
  HostBackendOptions backend{workload.config().threads, options.h2d, options.d2h,
                             options.delay_seed, 200};
  if (plan_.nvme_units != 0) {
    NvmeOptions nvme;
    nvme.directories = options.nvme.directories;
    nvme.engine = options.nvme.engine;
    nvme.unit_bytes = workload.shape().unit_bytes();
    nvme.units = plan_.nvme_units;
    nvme.delay_seed = options.delay_seed;
    nvme.timeout_seconds = options.nvme.timeout_seconds;
    store_ = std::make_unique<NvmeStore>(
        nvme, options.nvme.files != nullptr ? *options.nvme.files : real_files(), options.nvme.wrap,
        options.nvme.wrap_context);
    backend.nvme = store_->adopted();
  }
  backend_ = std::make_unique<HostBackend>(backend);
  EngineOptions engine;
  engine.clip = workload.config().clip;
  engine.log = options.log;
  engine.mutations = options.mutations;
  engine_ = std::make_unique<Engine>(*backend_, input_.layout, input_.shape, plan_, input_.policy,
                                     input_.updater, input_.programs, ledger_, engine);
  if (store_) {
    // Homes never change, so other threads may ask too.
    store_->set_owners([this](uint32_t u) { return engine_->describe_home(Place::nvme, u); });
  }
  engine_->zero_state();
  if (options.initialize) initialize();
}

Session::~Session() {
  if (store_) store_->set_owners(nullptr);  // which ask the engine
}

void Session::initialize() {
  const ChunkLayout& layout = workload_.layout();
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    if (layout.storage_of(p) != p) continue;
    engine_->set_weight(p, [&](uint64_t begin, uint64_t n, float* out) {
      // Each value is a function of its index alone, so any cut gives the same bits.
      constexpr uint64_t kBlock = 4096;
      const ThreadPool::Turn turn(backend_->pool());
      backend_->pool().parallel_for(
          static_cast<uint32_t>((n + kBlock - 1) / kBlock), [&](uint32_t i) {
            const uint64_t at = i * kBlock;
            workload_.model().initialize(p, workload_.config().seed, begin + at,
                                         std::min(kBlock, n - at), out + at);
          });
    });
  }
}

void Session::run(Mode mode, const TokenBatch& batch, const StepParams& params) {
  Model& model = workload_.model();
  model.set_batch(batch);
  engine_->begin(static_cast<uint32_t>(mode), params);
  for (const BlockCall& call : workload_.program(mode).calls()) {
    model.run(*engine_, call.kind, call.block, mode);
  }
  engine_->end();
}

void Session::step(const TokenBatch& batch, const StepParams& params) {
  run(Mode::train, batch, params);
}

double Session::evaluate(const TokenBatch& batch) {
  run(Mode::eval, batch, {});
  return engine_->evaluation_loss();
}

std::vector<Plane> state_planes(const Workload& w, ParamId p) {
  std::vector<Plane> planes = {Plane::weight};
  if (!w.program(Mode::train).has_gradient(p)) return planes;
  const ChunkId chunk = w.layout().of_param(p).front().chunk;
  for (const Plane plane : {Plane::remainder, Plane::m, Plane::v}) {
    if (w.shape().units({chunk, plane}) != 0) planes.push_back(plane);
  }
  return planes;
}

std::vector<std::byte> Session::read(ParamId p, Plane plane) {
  std::vector<std::byte> bytes(workload_.layout().params()[p].elems() *
                               workload_.shape().element_bytes(plane));
  engine_->visit(p, plane, [&](uint64_t offset, const std::byte* data, size_t n) {
    std::memcpy(bytes.data() + offset, data, n);
  });
  return bytes;
}

uint64_t Session::state_hash() {
  Hasher hash;
  const ChunkLayout& layout = workload_.layout();
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    if (layout.storage_of(p) != p) continue;
    for (const Plane plane : state_planes(workload_, p)) {
      engine_->visit(p, plane,
                     [&](uint64_t, const std::byte* data, size_t n) { hash.bytes(data, n); });
    }
  }
  return hash.digest();
}

}  // namespace strata
