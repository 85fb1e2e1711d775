#include "tests/offload/random_trace.hpp"

#include <algorithm>
#include <array>
#include <random>

namespace strata {

TraceFile random_trace(uint64_t seed, bool small) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  const DType dtype = below(2) == 0 ? DType::f32 : DType::bf16;
  const auto elems = static_cast<int64_t>(kRandomChunkBytes / size_of(dtype));
  const auto ops = static_cast<uint32_t>(small ? 3 + below(3) : 8 + below(52));
  TraceFile out;
  out.model = "random " + std::to_string(seed);
  std::vector<std::vector<ParamId>> used(ops);
  for (uint32_t i = 0; i < ops; ++i) {
    constexpr std::array<uint32_t, 5> kTensors = {1, 1, 1, 2, 3};
    for (uint32_t n = kTensors[small ? 0 : below(5)]; n > 0; --n) {
      used[i].push_back(static_cast<ParamId>(out.params.size()));
      ParamSpec p;
      p.name = "w" + std::to_string(out.params.size());
      p.shape = {elems};
      p.dtype = dtype;
      out.params.push_back(std::move(p));
    }
    if (i != 0 && below(4) == 0) used[i].push_back(used[i - 1].front());
  }
  if (below(2) == 0 && used[0] != used[ops - 1]) {
    used[ops - 1].insert(used[ops - 1].end(), used[0].begin(), used[0].end());
  }
  for (std::vector<ParamId>& u : used) {
    std::sort(u.begin(), u.end());
    u.erase(std::unique(u.begin(), u.end()), u.end());
  }
  Trace& t = out.trace;
  t.blocks = ops;
  for (uint32_t i = 0; i < 2 * ops; ++i) t.values.push_back({"v" + std::to_string(i), 64});
  for (uint32_t i = 0; i < 2 * ops; ++i) {
    const bool forward = i < ops;
    const uint32_t block = forward ? i : 2 * ops - 1 - i;
    TraceOp op{forward ? "forward" : "backward", (forward ? 1u : 2u) << 20, 0, 0, {}, {}, {i}};
    for (const ParamId p : used[block]) op.uses.push_back(reads(p));
    if (i != 0) op.in.push_back(i - 1);
    if (!forward) {
      if (block != i - 1) op.in.push_back(block);
      for (const ParamId p : used[block]) op.uses.push_back(grad_of(p));
    }
    t.segments.push_back({forward ? CallKind::forward : CallKind::backward, block, {op}});
  }
  return out;
}

}  // namespace strata
