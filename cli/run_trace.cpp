// `strata trace`.
#include <fmt/format.h>

#include <filesystem>

#include "cli/output.hpp"
#include "cli/run_setup.hpp"
#include "cli/verbs.hpp"
#include "models/gpt2_config.hpp"
#include "models/registry.hpp"
#include "offload/trace_file.hpp"
#include "runtime/errors.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {
namespace {

/// A rename puts a file in the place of whatever is there, be it a device.
void expect_file_or_nothing(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw ConfigError(fmt::format("--out: {} is no regular file; name one, or - for stdout", path));
}

}  // namespace

int run_trace(const TraceArgs& args) {
  const ModelArgs& m = args.model;
  const BatchShape shape{m.batch, m.seq != 0 ? m.seq : parse_gpt2(m.model).positions, 1};
  const uint32_t threads = resolve_threads(args.threads);
  const auto model = make_model(m.model, {shape, m.dtype, threads});
  TraceFile file;
  file.model = fmt::format("{} {}, batch {} x {} tokens, {} threads", model_name(m.model),
                           name_of(m.dtype), shape.batch, shape.seq, threads);
  file.tokens = shape.rows();
  file.params = model->params();
  file.trace = trace_model(*model, Mode::train);
  const std::string text = write_trace(file);
  Output out(false);
  if (args.out == "-") {
    out.piece(text);
    return 0;
  }
  expect_file_or_nothing(args.out);
  replace_text(watched_files(), args.out, text);
  out.text(fmt::format("{}: {} tensors, {} values, {} block calls", args.out, file.params.size(),
                       file.trace.values.size(), file.trace.segments.size()));
  return 0;
}

}  // namespace strata
