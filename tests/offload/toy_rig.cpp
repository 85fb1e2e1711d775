#include "tests/offload/toy_rig.hpp"

#include <stdexcept>

#include "runtime/host/host_backend.hpp"

namespace strata::toy {
namespace {

size_t between(size_t low, size_t high, double fraction) {
  return low + static_cast<size_t>(fraction * static_cast<double>(high > low ? high - low : 0));
}

}  // namespace

Plans::Plans(const Config& c)
    : config(c),
      model(c.shape),
      layout(ChunkLayout::build(model.params(), {c.chunk_elems, 1})),
      train(Program::lower(model.trace(true), layout,
                           {c.accum, std::vector<bool>(model.blocks(), c.recompute), c.order})),
      eval(Program::lower(model.trace(false), layout, {1, {}})),
      programs{&train, &eval},
      shape(layout, train, c.optimizer),
      updater(make_updater(c.optimizer, layout.params())),
      policy(make_policy(c.policy)) {}

PlanInput Plans::input(const Budgets& b) const {
  return {layout, shape, programs, *policy, *updater, b, config.clip, {}, {}, {}, config.overlap};
}

Budgets Plans::budgets() const {
  constexpr size_t kPlenty = size_t{1} << 32;
  PlanResult wide = make_plan(input({{kPlenty, kPlenty, 0}, {}}));
  size_t host = wide.minimum[1], nvme = 0;
  if (config.host_share < 1) {
    host = between(0, host, config.host_share);
    // Speculation keeps two versions there.
    nvme = wide.minimum[1] * (config.overlap == OptimizerOverlap::speculative ? 2 : 1);
    wide = make_plan(input({{kPlenty, host, nvme}, {}}));
  }
  return {{between(wide.minimum[0], wide.tiers[0].peak, config.memory), host, nvme}, {}};
}

Rig::Rig(const Config& c)
    : plans(c),
      budgets(plans.budgets()),
      planned(make_plan(plans.input(budgets))),
      plan(planned.plan),
      ledger(budgets.bytes) {
  if (c.tamper) c.tamper(plans.programs, plan);
  if (c.virtual_time) {
    VirtualRates rates;
    rates.delay_seed = c.delay_seed;
    backend = std::make_unique<VirtualBackend>(rates);
  } else {
    HostBackendOptions o{c.threads, {}, {}, c.delay_seed, c.max_delay_microseconds};
    if (plan.nvme_units != 0) {
      directories = std::make_unique<testing::TemporaryDirectories>(c.nvme_directories);
      NvmeOptions n;
      n.directories = directories->paths();
      n.unit_bytes = plans.shape.unit_bytes();
      n.units = plan.nvme_units;
      n.engine = c.nvme_engine;
      n.request_bytes = 4096;
      n.delay_seed = c.delay_seed;
      store = std::make_unique<NvmeStore>(n);
      o.nvme = store->adopted();
    }
    backend = std::make_unique<HostBackend>(o);
  }
  if (c.record.count != 0) {
    timeline =
        std::make_unique<Timeline>(plans.train, plans.shape, plans.layout.chunks(), c.record);
    backend->observe(timeline.get());
  }
  EngineOptions options;
  options.clip = c.clip;
  options.timeline = timeline.get();
  options.run_ahead = c.run_ahead;
  options.log = c.keep_log ? &log : nullptr;
  options.mutations = c.mutations;
  engine = std::make_unique<Engine>(*backend, plans.layout, plans.shape, plan, *planned.policy,
                                    *plans.updater, plans.programs, ledger, options);
  engine->zero_state();
  for (ParamId p = 0; p < plans.layout.params().size(); ++p) {
    if (plans.layout.storage_of(p) != p) continue;
    engine->set_weight(p, [&](uint64_t begin, uint64_t n, float* w) {
      for (uint64_t i = 0; i < n; ++i) w[i] = plans.model.initial(p, begin + i);
    });
  }
}

void Rig::fill_batch(uint64_t s) {
  const Config& c = plans.config;
  Model& model = plans.model;
  const size_t n = c.shape.rows * c.accum;
  for (auto* v : {&model.tokens[s % 2], &model.targets[s % 2]}) v->resize(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t h = (s * 977 + i + 1) * 0x9e3779b97f4a7c15u;
    model.tokens[s % 2][i] = static_cast<int32_t>((h >> 20) % c.shape.vocabulary);
    model.targets[s % 2][i] = static_cast<int32_t>((h >> 40) % c.shape.vocabulary);
  }
  model.slot = s % 2;
}

StepParams Rig::params_of(uint64_t s) const {
  const Config& c = plans.config;
  return {s, c.lr, static_cast<double>(c.shape.rows * c.accum)};
}

void Rig::run(uint32_t program, const StepParams& params) {
  engine->begin(program, params);
  if (plans.config.virtual_time) {
    engine->run_program();
  } else {
    for (const BlockCall& call : plans.programs[program]->calls()) {
      plans.model.run(*engine, call, program == 0);
    }
  }
  engine->end();
}

void Rig::step(uint64_t s) {
  fill_batch(s);
  run(0, params_of(s));
}

std::vector<std::byte> Rig::read(ParamId p, Plane plane) {
  std::vector<std::byte> bytes;
  engine->visit(p, plane, [&](uint64_t offset, const std::byte* data, size_t n) {
    if (offset != bytes.size()) throw std::logic_error("blocks do not come in order");
    bytes.insert(bytes.end(), data, data + n);
  });
  return bytes;
}

std::vector<std::vector<std::byte>> Rig::state() {
  std::vector<std::vector<std::byte>> out;
  for (ParamId p = 0; p < plans.layout.params().size(); ++p) {
    if (plans.layout.storage_of(p) != p) continue;
    for (const Plane plane : {Plane::weight, Plane::remainder, Plane::m, Plane::v}) {
      if (plans.shape.units({plans.layout.of_param(p).front().chunk, plane}) == 0) continue;
      // Planes beside the weights exist by chance where a neighbour in the chunk is trained.
      if (plane != Plane::weight && !plans.train.has_gradient(p)) continue;
      out.push_back(read(p, plane));
    }
  }
  return out;
}

}  // namespace strata::toy
