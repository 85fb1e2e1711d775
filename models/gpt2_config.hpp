// Shapes of the GPT-2 family and their names.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/dtype.hpp"

namespace strata {

struct Gpt2Config {
  uint32_t layers = 12, width = 768, heads = 12, vocabulary = 50257, positions = 1024;

  uint64_t parameters() const noexcept;
  /// `gpt2:L12,D768,...`
  std::string spec() const;
  bool operator==(const Gpt2Config&) const = default;
};

struct Gpt2Preset {
  std::string_view name;
  Gpt2Config config;
};
std::span<const Gpt2Preset> gpt2_presets();

/// A preset's name, or `gpt2:L6,D384,H6,V256,T256` with any of L layers, D width, H heads,
/// V vocabulary, T positions; what is left out is as in `gpt2`. Throws ConfigError.
Gpt2Config parse_gpt2(std::string_view spec);

}  // namespace strata
