#include "tests/offload/toy_run.hpp"

#include <stdexcept>

namespace strata::toy {

bool Outcome::same_numbers(const Outcome& o) const {
  return losses == o.losses && norms == o.norms && evaluations == o.evaluations && state == o.state;
}

Outcome run(const Config& c) {
  Rig rig(c);
  Outcome out;
  const auto keep = [&](const StepResult& r) {
    out.losses.push_back(r.loss);
    out.norms.push_back(r.grad_norm);
  };
  for (uint64_t s = 0; s < c.steps; ++s) {
    rig.step(s);
    if (c.evaluate && s % 2 == 1) {
      rig.evaluate();
      out.evaluations.push_back(rig.engine->evaluation_loss());
    }
    if (s > 0) keep(rig.engine->result(1));
  }
  rig.engine->flush();
  keep(rig.engine->result(0));
  out.stats = rig.engine->stats();
  for (size_t t = 0; t < kTiers; ++t) out.peaks[t] = rig.ledger.peak(static_cast<Tier>(t));
  out.log = rig.log;
  if (!c.virtual_time) out.state = rig.state();
  rig.engine.reset();
  for (size_t t = 0; t < kTiers; ++t) {
    const Tier tier = static_cast<Tier>(t);
    if (rig.ledger.now(tier) != 0) throw std::logic_error("the ledger is not zero");
  }
  out.plan = std::move(rig.planned);
  return out;
}

}  // namespace strata::toy
