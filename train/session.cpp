#include "train/session.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "models/registry.hpp"
#include "runtime/errors.hpp"
#include "runtime/hash.hpp"

namespace strata {
namespace {

/// Those to generate with: the padding of a sequence costs at most as much as the sequence.
std::vector<uint32_t> sequence_lengths(uint32_t positions) {
  std::vector<uint32_t> lengths;
  for (uint32_t n = 64; n < positions; n *= 2) lengths.push_back(n);
  lengths.push_back(positions);
  return lengths;
}

}  // namespace

Workload::Workload(const SessionConfig& config) : config_(config) {
  const auto add_model = [&](const BatchShape& shape) -> Model& {
    models_.push_back(make_model(config.model, {shape, config.dtype, config.threads}));
    return *models_.back();
  };
  if (config.trains || config.evaluates) {
    add_model(config.shape);
  } else if (config.generates) {
    add_model({1, 1, 1});
  } else {
    throw ConfigError("nothing to plan: a session trains, evaluates or generates");
  }
  const auto& params = model().params();
  layout_ =
      ChunkLayout::build(params, {ChunkLayout::chunk_elems_of(params, config.chunk_bytes), 1});
  if (config.trains) lower(Mode::train, config.shape.seq, model());
  if (config.evaluates) lower(Mode::eval, config.shape.seq, model());
  if (config.generates) {
    for (const uint32_t seq : sequence_lengths(model().positions())) {
      lower(Mode::generate, seq, add_model({1, seq, 1}));
    }
  }
  updater_ = make_updater(config.optimizer, layout_->params());
  policy_ = make_policy(config.policy);
  shape_.emplace(*layout_, *programs_.front().program, config.optimizer);
}

void Workload::lower(Mode mode, uint32_t seq, Model& model) {
  const Trace trace = trace_model(model, mode);
  const Schedule schedule = mode == Mode::train ? make_schedule(trace, config_.shape.micro_batches,
                                                                config_.recompute, config_.order)
                                                : Schedule{};
  programs_.push_back(
      {mode, seq, &model, std::make_unique<Program>(Program::lower(trace, *layout_, schedule))});
}

uint32_t Workload::index_of(Mode mode) const {
  for (uint32_t i = 0; i < programs_.size(); ++i) {
    if (programs_[i].mode == mode) return i;
  }
  const char* const name = mode == Mode::train ? "train" : mode == Mode::eval ? "eval" : "generate";
  throw StateError(std::string("no program to ") + name + " was planned; ask for it in the config");
}

PlanInput Workload::plan_input(const Budgets& budgets) const {
  std::vector<const Program*> programs;
  for (const Planned& p : programs_) programs.push_back(p.program.get());
  return {*layout_,  *shape_,           std::move(programs), *policy_,
          *updater_, budgets,           config_.clip,        config_.rates,
          {},        config_.objective, config_.overlap};
}

MicroBatchOrder choose_order(SessionConfig config, const Budgets& budgets) {
  if (!config.trains || config.shape.micro_batches == 1) return MicroBatchOrder::horizontal;
  config.order = MicroBatchOrder::vertical;
  const PlanResult vertical = Workload(config).plan(budgets);
  config.order = MicroBatchOrder::horizontal;
  const PlanResult horizontal = Workload(config).plan(budgets);
  if (vertical.fits != horizontal.fits) {
    return vertical.fits ? MicroBatchOrder::vertical : MicroBatchOrder::horizontal;
  }
  return vertical.fits && vertical.prediction.step_seconds < horizontal.prediction.step_seconds
             ? MicroBatchOrder::vertical
             : MicroBatchOrder::horizontal;
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
      policy_(plan.policy),
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
    nvme.checksums = options.nvme.checksums;
    nvme.unit_bytes = workload.shape().unit_bytes();
    nvme.units = plan_.nvme_units;
    nvme.delay_seed = options.delay_seed;
    nvme.timeout_seconds = options.nvme.timeout_seconds;
    nvme.bytes_per_second = options.nvme.bytes_per_second;
    store_ = std::make_unique<NvmeStore>(
        nvme, options.nvme.files != nullptr ? *options.nvme.files : real_files(), options.nvme.wrap,
        options.nvme.wrap_context);
    backend.nvme = store_->adopted();
  }
  backend_ = std::make_unique<HostBackend>(backend);
  backend_->observe(options.timeline);
  EngineOptions engine;
  engine.clip = workload.config().clip;
  engine.log = options.log;
  engine.timeline = options.timeline;
  engine.mutations = options.mutations;
  engine_ = std::make_unique<Engine>(*backend_, input_.layout, input_.shape, plan_, *policy_,
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

void Session::run(uint32_t program, const TokenBatch& batch, const StepParams& params) {
  const Workload::Planned& p = workload_.programs()[program];
  p.model->set_batch(batch);
  engine_->begin(program, params);
  for (const BlockCall& call : p.program->calls()) {
    p.model->run(*engine_, call.kind, call.block, p.mode);
  }
  engine_->end();
}

void Session::step(const TokenBatch& batch, const StepParams& params) {
  run(workload_.index_of(Mode::train), batch, params);
}

double Session::evaluate(const TokenBatch& batch) {
  run(workload_.index_of(Mode::eval), batch, {});
  return engine_->evaluation_loss();
}

void Session::next_logits(std::span<const int32_t> tokens, std::span<float> logits) {
  const uint32_t vocabulary = workload_.model().vocabulary();
  const uint32_t positions = workload_.model().positions();
  if (tokens.empty() || tokens.size() > positions) {
    throw ConfigError("cannot go on from " + std::to_string(tokens.size()) + " tokens; give 1 to " +
                      std::to_string(positions));
  }
  if (logits.size() != vocabulary) {
    throw StateError("room for " + std::to_string(logits.size()) + " logits, there are " +
                     std::to_string(vocabulary));
  }
  for (const int32_t t : tokens) {
    if (t >= 0 && static_cast<uint32_t>(t) < vocabulary) continue;
    throw ConfigError("token " + std::to_string(t) + " is not in the vocabulary of " +
                      std::to_string(vocabulary));
  }
  const auto programs = workload_.programs();
  uint32_t index = workload_.index_of(Mode::generate);
  while (programs[index].seq < tokens.size()) ++index;
  sequence_.assign(positions, 0);
  std::copy(tokens.begin(), tokens.end(), sequence_.begin());
  logits_.resize(vocabulary);
  TokenBatch batch;
  batch.tokens = sequence_.data();
  batch.position = static_cast<uint32_t>(tokens.size() - 1);
  batch.logits = logits_.data();
  run(index, batch, {});
  backend_->wait(backend_->stream(Resource::compute).record());
  std::copy(logits_.begin(), logits_.end(), logits.begin());
}

std::vector<Plane> state_planes(const Workload& w, ParamId p) {
  std::vector<Plane> planes = {Plane::weight};
  if (!w.programs().front().program->has_gradient(p)) return planes;
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
