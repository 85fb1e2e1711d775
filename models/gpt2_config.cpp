#include "models/gpt2_config.hpp"

#include <array>
#include <charconv>

#include "runtime/errors.hpp"

namespace strata {
namespace {

[[noreturn]] void refuse(std::string_view spec, const std::string& why) {
  std::string names;
  for (const Gpt2Preset& p : gpt2_presets()) names += std::string(p.name) + ", ";
  throw ConfigError("model '" + std::string(spec) + "': " + why + "; known models: " + names +
                    "or any shape as gpt2:L6,D384,H6,V256,T256 (layers, width, heads, "
                    "vocabulary, positions)");
}

void check(std::string_view spec, const Gpt2Config& c) {
  if (c.width % c.heads != 0) {
    refuse(spec, "width " + std::to_string(c.width) + " is not a multiple of " +
                     std::to_string(c.heads) + " heads");
  }
  // A trace lists every layer's ops.
  constexpr uint32_t kMostLayers = 1'000;
  if (c.layers > kMostLayers) refuse(spec, "more than " + std::to_string(kMostLayers) + " layers");
  // Attention prepares products for every block of keys.
  constexpr uint32_t kMostPositions = 1 << 17;
  if (c.positions > kMostPositions) {
    refuse(spec, "more than " + std::to_string(kMostPositions) + " positions");
  }
}

}  // namespace

uint64_t Gpt2Config::parameters() const noexcept {
  const uint64_t d = width;
  return vocabulary * d + positions * d + layers * (12 * d * d + 13 * d) + 2 * d;
}

std::string Gpt2Config::spec() const {
  return "gpt2:L" + std::to_string(layers) + ",D" + std::to_string(width) + ",H" +
         std::to_string(heads) + ",V" + std::to_string(vocabulary) + ",T" +
         std::to_string(positions);
}

std::span<const Gpt2Preset> gpt2_presets() {
  static constexpr std::array<Gpt2Preset, 4> kPresets = {{
      {"gpt2", {12, 768, 12, 50257, 1024}},
      {"gpt2-medium", {24, 1024, 16, 50257, 1024}},
      {"gpt2-large", {36, 1280, 20, 50257, 1024}},
      {"gpt2-xl", {48, 1600, 25, 50257, 1024}},
  }};
  return kPresets;
}

Gpt2Config parse_gpt2(std::string_view spec) {
  for (const Gpt2Preset& p : gpt2_presets()) {
    if (p.name == spec) return p.config;
  }
  constexpr std::string_view kPrefix = "gpt2:";
  if (!spec.starts_with(kPrefix)) refuse(spec, "there is no such model");
  Gpt2Config c;
  std::string seen;
  for (size_t at = kPrefix.size(); at <= spec.size();) {
    const std::string_view item = spec.substr(at, spec.find(',', at) - at);
    at += item.size() + 1;
    if (item.empty()) refuse(spec, "an empty item");
    uint32_t value = 0;
    const auto [end, ec] = std::from_chars(item.data() + 1, item.data() + item.size(), value);
    constexpr uint32_t kMost = 1 << 24;
    if (ec != std::errc() || end != item.data() + item.size() || value == 0 || value > kMost) {
      refuse(spec, "'" + std::string(item) + "' is not a letter and a number from 1 to 16777216");
    }
    if (seen.find(item[0]) != std::string::npos) {
      refuse(spec, std::string("'") + item[0] + "' is given twice");
    }
    seen += item[0];
    switch (item[0]) {
      case 'L': c.layers = value; break;
      case 'D': c.width = value; break;
      case 'H': c.heads = value; break;
      case 'V': c.vocabulary = value; break;
      case 'T': c.positions = value; break;
      default: refuse(spec, std::string("unknown letter '") + item[0] + "'");
    }
  }
  check(spec, c);
  return c;
}

}  // namespace strata
