#include "train/data.hpp"

namespace strata {

void TokenSource::train_batch(uint64_t first_sample, uint32_t samples, int32_t* tokens,
                              int32_t* targets) {
  for (uint32_t i = 0; i < samples; ++i) {
    const uint64_t offset = uint64_t{i} * seq();
    read_window(sampler_.train_start(first_sample + i), tokens + offset, targets + offset);
  }
}

void TokenSource::validation_batch(uint64_t first_window, uint32_t samples, int32_t* tokens,
                                   int32_t* targets) {
  for (uint32_t i = 0; i < samples; ++i) {
    const uint64_t offset = uint64_t{i} * seq();
    read_window(sampler_.validation_start(first_window + i), tokens + offset, targets + offset);
  }
}

}  // namespace strata
