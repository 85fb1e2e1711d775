#include "train/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/errors.hpp"
#include "runtime/random.hpp"

namespace strata {

int32_t choose_token(std::span<const float> logits, const TokenChoice& choice, uint64_t position) {
  if (!(choice.temperature >= 0) || !std::isfinite(choice.temperature)) {
    throw ConfigError("temperature " + std::to_string(choice.temperature) +
                      ": must be 0 or a positive number");
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) continue;
    throw NonFinite("the logit of token " + std::to_string(i) + " at position " +
                    std::to_string(position) + " is not finite; the weights are not usable");
  }
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (choice.temperature == 0) return *std::min_element(ids.begin(), ids.end(), likelier);
  if (choice.top_k != 0 && choice.top_k < ids.size()) {
    std::nth_element(ids.begin(), ids.begin() + choice.top_k, ids.end(), likelier);
    ids.resize(choice.top_k);
  }
  std::sort(ids.begin(), ids.end(), likelier);
  std::vector<double> ends;  // of each token's share
  const double highest = logits[static_cast<size_t>(ids.front())];
  double sum = 0;
  for (const int32_t id : ids) {
    sum += std::exp((logits[static_cast<size_t>(id)] - highest) / choice.temperature);
    ends.push_back(sum);
  }
  const double at = sum * random_unit(choice.seed, random_stream(RandomUse::generate), position);
  const auto chosen = std::upper_bound(ends.begin(), ends.end() - 1, at) - ends.begin();
  return ids[static_cast<size_t>(chosen)];
}

}  // namespace strata
