// The words for what an op does with a tensor.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "offload/op.hpp"
#include "runtime/errors.hpp"

namespace strata {

struct AccessWord {
  std::string_view word;
  Plane plane;
  Access access;
};
constexpr std::array<AccessWord, 3> kAccessWords = {{
    {"read", Plane::weight, Access::read},
    {"write", Plane::grad, Access::write},
    {"accumulate", Plane::grad, Access::accumulate},
}};

/// Null for an unknown word.
inline const AccessWord* access_of(std::string_view word) noexcept {
  for (const AccessWord& w : kAccessWords) {
    if (w.word == word) return &w;
  }
  return nullptr;
}

/// Throws ConfigError when there is no word: ops of a trace read weights and make gradients.
inline std::string_view word_of(const TensorUse& use) {
  for (const AccessWord& w : kAccessWords) {
    if (w.plane == use.plane && w.access == use.access) return w.word;
  }
  throw ConfigError("tensor " + std::to_string(use.param) +
                    " is used otherwise than to read its weight or to make its gradient");
}

}  // namespace strata
