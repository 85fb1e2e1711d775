#include "tests/offload/toy_run.hpp"

#include "runtime/host/host_backend.hpp"

namespace strata::toy {
namespace {

void fill_batch(const Config& c, Model& model, uint64_t step) {
  const size_t n = c.shape.rows * c.accum;
  for (auto* v : {&model.tokens[step % 2], &model.targets[step % 2]}) v->resize(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t h = (step * 977 + i + 1) * 0x9e3779b97f4a7c15u;
    model.tokens[step % 2][i] = static_cast<int32_t>((h >> 20) % c.shape.vocabulary);
    model.targets[step % 2][i] = static_cast<int32_t>((h >> 40) % c.shape.vocabulary);
  }
  model.slot = step % 2;
}

size_t between(size_t low, size_t high, double fraction) {
  return low + static_cast<size_t>(fraction * static_cast<double>(high > low ? high - low : 0));
}

}  // namespace

bool Outcome::same_numbers(const Outcome& o) const {
  return losses == o.losses && norms == o.norms && evaluations == o.evaluations && state == o.state;
}

Outcome run(const Config& c) {
  Model model(c.shape);
  const ChunkLayout layout = ChunkLayout::build(model.params(), {c.chunk_elems, 1});
  const Schedule schedule{c.accum, std::vector<bool>(model.blocks(), c.recompute)};
  const Program train = Program::lower(model.trace(true), layout, schedule);
  const Program eval = Program::lower(model.trace(false), layout, {1, {}});
  const std::vector<const Program*> programs = {&train, &eval};
  const StateShape shape(layout, train, c.optimizer);
  const auto updater = make_updater(c.optimizer, layout.params());
  const auto policy = make_policy(c.policy);

  PlanInput input{layout, shape, programs, *policy, *updater, {}, c.clip, {}};
  constexpr size_t kPlenty = size_t{1} << 32;
  input.budgets.bytes = {kPlenty, kPlenty, 0};
  const PlanResult wide = make_plan(input);
  input.budgets.bytes[0] = between(wide.minimum[0], wide.tiers[0].peak, c.memory);
  input.budgets.bytes[1] = wide.minimum[1];

  Outcome out;
  out.plan = make_plan(input);
  Plan plan = out.plan.plan;
  if (c.tamper) c.tamper(programs, plan);
  Ledger ledger(input.budgets.bytes);
  {
    std::unique_ptr<Backend> backend;
    if (c.virtual_time) {
      VirtualRates rates;
      rates.delay_seed = c.delay_seed;
      backend = std::make_unique<VirtualBackend>(rates);
    } else {
      backend =
          std::make_unique<HostBackend>(HostBackendOptions{c.threads, {}, {}, c.delay_seed, 100});
    }
    EngineOptions options;
    options.clip = c.clip;
    options.log = &out.log;
    options.mutations = c.mutations;
    Engine engine(*backend, layout, shape, plan, *policy, *updater, programs, ledger, options);
    engine.zero_state();
    for (ParamId p = 0; p < layout.params().size(); ++p) {
      if (layout.storage_of(p) != p) continue;
      engine.set_weight(p, [&](uint64_t begin, uint64_t n, float* w) {
        for (uint64_t i = 0; i < n; ++i) w[i] = model.initial(p, begin + i);
      });
    }
    const auto execute = [&](uint32_t program, const StepParams& params) {
      engine.begin(program, params);
      if (c.virtual_time) {
        engine.run_program();
      } else {
        for (const BlockCall& call : programs[program]->calls()) {
          model.run(engine, call, program == 0);
        }
      }
      engine.end();
    };
    const auto keep = [&](const StepResult& r) {
      out.losses.push_back(r.loss);
      out.norms.push_back(r.grad_norm);
    };
    for (uint64_t s = 0; s < c.steps; ++s) {
      fill_batch(c, model, s);
      execute(0, {s, 0.01, static_cast<double>(c.shape.rows * c.accum)});
      if (c.evaluate) {
        execute(1, {});
        out.evaluations.push_back(engine.evaluation_loss());
      }
      if (s > 0) keep(engine.result(1));
    }
    engine.flush();
    keep(engine.result(0));
    if (!c.virtual_time) {
      for (ParamId p = 0; p < layout.params().size(); ++p) {
        if (layout.storage_of(p) != p) continue;
        for (const Plane plane : {Plane::weight, Plane::remainder, Plane::m, Plane::v}) {
          if (shape.units({layout.of_param(p).front().chunk, plane}) == 0) continue;
          // Planes beside the weights exist by chance where a neighbour in the chunk is trained.
          if (plane != Plane::weight && !train.has_gradient(p)) continue;
          std::vector<std::byte> bytes(layout.params()[p].elems() * 4);
          engine.read(p, plane, bytes.data());
          out.state.push_back(std::move(bytes));
        }
      }
    }
    out.stats = engine.stats();
  }
  for (size_t t = 0; t < kTiers; ++t) out.peaks[t] = ledger.peak(static_cast<Tier>(t));
  for (size_t t = 0; t < kTiers; ++t) {
    if (ledger.now(static_cast<Tier>(t)) != 0) throw std::logic_error("the ledger is not zero");
  }
  return out;
}

}  // namespace strata::toy
