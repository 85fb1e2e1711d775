#include "models/model.hpp"

namespace strata {

Trace trace_model(Model& model, Mode mode) {
  Tracer tracer(model.blocks(), model.values());
  const auto call = [&](CallKind kind, uint32_t block) {
    tracer.begin(kind, block);
    model.run(tracer, kind, block, mode);
  };
  for (uint32_t b = 0; b < model.blocks(); ++b) call(CallKind::forward, b);
  if (mode == Mode::train) {
    for (uint32_t b = 0; b < model.blocks(); ++b) {
      if (model.recomputable(b)) tracer.can_recompute(b);
    }
    for (uint32_t b = model.blocks(); b-- > 0;) call(CallKind::backward, b);
    for (uint32_t b = 0; b < model.blocks(); ++b) call(CallKind::tail, b);
  }
  return tracer.take();
}

}  // namespace strata
