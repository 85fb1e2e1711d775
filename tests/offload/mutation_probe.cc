// Trains the toy model with chunks streaming under the smallest budget, on streams with random
// delays. `skip-wait N`: the N-th op does not wait for its fetched weights. ThreadSanitizer must
// report exactly that: CMakeLists.txt beside this file runs both.
// Usage: mutation_probe clean|skip-wait [N]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/offload/toy_run.hpp"

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  const bool skip = mode == "skip-wait" && argc == 3;
  if (!skip && !(mode == "clean" && argc == 2)) {
    std::fputs("usage: mutation_probe clean|skip-wait [N]\n", stderr);
    return 2;
  }
  strata::toy::Config c;
  c.shape = {3, 40, 100, 6, strata::DType::f32};
  c.policy = "lru";
  c.memory = 0;
  c.delay_seed = 11;
  c.evaluate = true;
  if (skip) c.mutations.skip_fetch_wait = std::strtoull(argv[2], nullptr, 10);
  const strata::toy::Outcome o = strata::toy::run(c);
  std::printf("%llu weight fetches, last loss %g\n",
              static_cast<unsigned long long>(o.stats.weight_fetches), o.losses.back());
  return 0;
}
