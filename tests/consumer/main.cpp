// An embedding framework in miniature: lays tensors out in chunks, moves a chunk from the host to
// the device tier and adds to it there, with the installed core alone.
#include <strata/chunk/layout.hpp>
#include <strata/runtime/errors.hpp>
#include <strata/runtime/host/host_backend.hpp>
#include <strata/runtime/kernels/elementwise.hpp>

#include <cstdio>
#include <vector>

namespace {

// A kernel runs while its stream holds the pool.
void add_one(strata::HostContext& context, float* values, const float* ones, uint64_t n) {
  strata::kernels::accumulate(context.pool, values, strata::DType::f32, ones, strata::DType::f32,
                              n);
}

}  // namespace

int main() {
  using strata::Resource;
  std::vector<strata::ParamSpec> params(2);
  params[0].name = "embedding";
  params[0].shape = {100, 64};
  params[1].name = "projection";
  params[1].shape = {64, 64};
  const auto layout = strata::ChunkLayout::build(params, {.chunk_elems = 8192, .ranks = 1});
  const size_t bytes = layout.chunk_elems() * sizeof(float);

  strata::HostBackend backend({.threads = 2});
  const strata::Arena host = backend.allocate(strata::Tier::host, bytes);
  const strata::Arena device = backend.allocate(strata::Tier::device, 2 * bytes);
  auto* on_host = reinterpret_cast<float*>(host.base());
  auto* on_device = reinterpret_cast<float*>(device.base());
  for (uint64_t i = 0; i < layout.chunk_elems(); ++i) {
    on_host[i] = static_cast<float>(i);
    on_device[layout.chunk_elems() + i] = 1.0f;
  }

  strata::Stream& h2d = backend.stream(Resource::h2d);
  strata::Stream& compute = backend.stream(Resource::compute);
  h2d.copy(on_device, on_host, bytes);
  compute.wait(h2d.record());
  strata::launch_native<add_one, strata::HostContext>(
      compute, {}, on_device, static_cast<const float*>(on_device + layout.chunk_elems()),
      layout.chunk_elems());
  backend.wait(compute.record());
  for (uint64_t i = 0; i < layout.chunk_elems(); ++i) {
    if (on_device[i] != static_cast<float>(i) + 1.0f) return 1;
  }

  try {
    strata::ChunkLayout::build(params, {.chunk_elems = 1000, .ranks = 1});
    return 1;
  } catch (const strata::ConfigError& error) {
    std::printf("%u chunks moved; and, as it should: %s\n", layout.chunks(), error.what());
    return error.exit_code() == 2 ? 0 : 1;
  }
}
