#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/inference.hpp"
#include "cli/output.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"
#include "runtime/errors.hpp"

namespace strata {

int run_eval(const EvalArgs& args) {
  Output out(args.json);
  Inference model(args.run, args.budget, Mode::eval);
  RunArgs source = model.run();
  if (!args.data.empty()) source.data = args.data;
  const BatchShape& shape = model.workload().config().shape;
  const auto data = open_data(source, shape.seq, model.workload().model().vocabulary());
  TrainerConfig config;
  config.evaluate_batches = args.batches != 0 ? args.batches : std::numeric_limits<uint64_t>::max();
  const double loss = Trainer(model.workload(), model.session(), *data, config).validation_loss();
  if (!std::isfinite(loss)) {
    throw NonFinite("the loss of " + model.checkpoint().entry.path + " is not finite");
  }
  const uint64_t batches = data->sampler().validation_batches(shape.batch, config.evaluate_batches);
  const uint64_t tokens = batches * shape.rows();
  out.text(
      fmt::format("checkpoint  {}, after step {}\nloss        {:.4f} over {} tokens; "
                  "perplexity {:.3f}",
                  model.checkpoint().entry.path, model.checkpoint().manifest.step, loss, tokens,
                  std::exp(loss)));
  auto j = nlohmann::ordered_json::parse(model.json());
  j["loss"] = loss;
  j["perplexity"] = std::exp(loss);
  j["tokens"] = tokens;
  out.result(j.dump());
  return 0;
}

}  // namespace strata
