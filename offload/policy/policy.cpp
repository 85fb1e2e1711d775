#include "offload/policy/policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "offload/policy/auto.hpp"
#include "offload/policy/belady.hpp"
#include "offload/policy/gemini.hpp"
#include "offload/policy/lru.hpp"
#include "offload/policy/planned.hpp"
#include "offload/policy/resident.hpp"
#include "offload/policy/static.hpp"
#include "runtime/errors.hpp"

namespace strata {

PolicyPlan Policy::plan(const PlacementInput& in) const {
  PolicyPlan out{place(in), {}, {}};
  for (const Program* p : in.programs) out.actions.push_back(actions(in, *p, out.chunks));
  return out;
}

std::vector<Action> Policy::actions(const PlacementInput&, const Program&,
                                    const std::vector<ChunkPlacement>&) const {
  return {};
}

size_t Policy::choose_victim(std::span<const Victim> victims) const {
  size_t best = 0;
  for (size_t i = 1; i < victims.size(); ++i) {
    if (victims[i].next_use > victims[best].next_use) best = i;
  }
  return best;
}

uint32_t largest_chunk(const PlacementInput& in) {
  uint32_t largest = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) {
    largest = std::max(largest, in.shape.chunk_units(c));
  }
  return largest;
}

bool leaves_room_to_stage(const PlacementInput& in) {
  return in.host_units >= 4 * largest_chunk(in);
}

void settle_below_device(const PlacementInput& in, std::vector<ChunkPlacement>& chunks) {
  if (in.nvme_units == 0) return;
  // Weights move twice a step, gradients come and go, records are read and written once.
  uint32_t room = in.host_units, below = 0;
  for (ChunkId c = 0; c < chunks.size(); ++c) {
    if (chunks[c].on_device()) continue;
    below += in.shape.chunk_units(c);
  }
  if (below > room && leaves_room_to_stage(in)) room -= 2 * largest_chunk(in);
  // Without a step-wide value gradients need not go home.
  using Order = std::array<Plane, kPlanes>;
  const Order order = in.stepwide
                          ? Order{Plane::weight, Plane::grad, Plane::remainder, Plane::m, Plane::v}
                          : Order{Plane::weight, Plane::remainder, Plane::m, Plane::v, Plane::grad};
  for (const Plane plane : order) {
    for (ChunkId c = 0; c < chunks.size(); ++c) {
      if (chunks[c].on_device()) continue;
      const uint32_t units = in.shape.units({c, plane});
      const bool fits = units <= room;
      chunks[c].homes[static_cast<size_t>(plane)] = fits ? Place::host : Place::nvme;
      if (fits) room -= units;
    }
  }
}

std::vector<ChunkPlacement> place_below_device(const PlacementInput& in) {
  std::vector<ChunkPlacement> out(in.layout.chunks(), ChunkPlacement::all(Place::host));
  uint64_t below = 0;
  for (ChunkId c = 0; c < in.layout.chunks(); ++c) below += in.shape.chunk_units(c);
  const uint64_t room = uint64_t{in.host_units} + in.nvme_units;
  for (ChunkId c = 0; c < in.layout.chunks() && below > room; ++c) {
    out[c] = ChunkPlacement::all(Place::device);
    below -= in.shape.chunk_units(c);
  }
  settle_below_device(in, out);
  return out;
}

std::span<const PolicyInfo> policies() {
  static constexpr std::array<PolicyInfo, 6> kPolicies = {{
      {"auto", "defer=FRACTION,staging=UNITS,nvme=UNITS,speculate=0|1",
       "the plan predicted to be fastest: what to keep from a linear program, and all the others"},
      {"resident", "", "everything on the device; refuses when it does not fit"},
      {"static", "w=FRACTION,o=FRACTION",
       "a prefix of the chunks keeps weights (w) and records (o) on the device; the rest streams"},
      {"lru", "", "streams on demand, evicts the least recently used, prefetches into free units"},
      {"belady", "", "streams, evicts what is used furthest away, over the end of the step"},
      {"gemini", "n=COUNT",
       "streams as Colossal-AI's Gemini: fetches between ops, n prefetches at once, looks no "
       "further "
       "than the step"},
  }};
  return kPolicies;
}

namespace {

[[noreturn]] void refuse(std::string_view spec, const std::string& why) {
  std::string known;
  for (const PolicyInfo& p : policies()) {
    known += (known.empty() ? "" : ", ") + std::string(p.name);
    if (!p.parameters.empty()) known += ":" + std::string(p.parameters);
  }
  throw ConfigError("policy '" + std::string(spec) + "': " + why + "; known policies: " + known);
}

using Parameters = std::map<std::string, std::string_view, std::less<>>;

Parameters parse_parameters(std::string_view spec, std::string_view text) {
  Parameters out;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t eq = item.find('=');
    if (eq == std::string_view::npos) refuse(spec, "'" + std::string(item) + "' is not key=value");
    if (!out.emplace(item.substr(0, eq), item.substr(eq + 1)).second) {
      refuse(spec, "key '" + std::string(item.substr(0, eq)) + "' is given twice");
    }
  }
  return out;
}

/// All of the text as a number from 0 to `most`, or nothing.
template <class T>
std::optional<T> parse_number(std::string_view text, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good && value >= 0 && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace

std::unique_ptr<Policy> make_policy(std::string_view spec) {
  const size_t colon = spec.find(':');
  const std::string_view name = spec.substr(0, colon);
  auto parameters = parse_parameters(
      spec, colon == std::string_view::npos ? std::string_view{} : spec.substr(colon + 1));
  const auto take = [&](std::string_view key, auto fallback, auto most, const std::string& what) {
    const auto it = parameters.find(key);
    if (it == parameters.end()) return fallback;
    const std::string_view text = it->second;
    const auto value = parse_number<decltype(fallback)>(text, most);
    if (!value) refuse(spec, "'" + std::string(text) + "' is not " + what);
    parameters.erase(it);
    return *value;
  };
  const auto take_fraction = [&](std::string_view key, double fallback) {
    return take(key, fallback, 1.0, "a fraction between 0 and 1");
  };
  const auto take_count = [&](std::string_view key, uint32_t fallback, uint32_t most) {
    return take(key, fallback, most, "a whole number from 0 to " + std::to_string(most));
  };
  std::unique_ptr<Policy> policy;
  if (name == "resident") {
    policy = std::make_unique<ResidentPolicy>();
  } else if (name == "static") {
    const double w = take_fraction("w", 0.5);
    policy = std::make_unique<StaticPolicy>(w, take_fraction("o", 0.25));
  } else if (name == "lru") {
    policy = std::make_unique<LruPolicy>();
  } else if (name == "auto") {
    if (parameters.empty()) {
      policy = std::make_unique<AutoPolicy>();
    } else {
      const double defer = take_fraction("defer", 0);
      const uint32_t staging = take_count("staging", 2, 1 << 20);
      const uint32_t any = UINT32_MAX, on_nvme = take_count("nvme", any, any);
      policy = std::make_unique<PlannedPolicy>(
          defer, staging, on_nvme == any ? std::nullopt : std::optional(on_nvme),
          take_count("speculate", 0, 1) != 0);
    }
  } else if (name == "belady") {
    policy = std::make_unique<BeladyPolicy>();
  } else if (name == "gemini") {
    policy = std::make_unique<GeminiPolicy>(take_count("n", 0, 1000));
  } else {
    refuse(spec, "there is no such policy");
  }
  if (!parameters.empty()) refuse(spec, "unknown key '" + parameters.begin()->first + "'");
  return policy;
}

}  // namespace strata
