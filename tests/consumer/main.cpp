// Links the installed core without models: uses its threads, numbers and errors.
#include <strata/runtime/dtype.hpp>
#include <strata/runtime/errors.hpp>
#include <strata/runtime/thread_pool.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  strata::ThreadPool pool(2);
  std::vector<float> values(1000);
  {
    const strata::ThreadPool::Turn turn(pool);
    pool.parallel_for(1000,
                      [&](uint32_t i) { values[i] = strata::to_float(strata::to_bf16(1.0f)); });
  }
  if (std::accumulate(values.begin(), values.end(), 0.0f) != 1000.0f) return 1;
  try {
    throw strata::DoesNotFit("tier device: 1 byte short");
  } catch (const strata::Error& error) {
    std::printf("%s (exit code %d)\n", error.what(), error.exit_code());
    return error.exit_code() == 3 ? 0 : 1;
  }
}
