// From the relaxed program to whole choices.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "offload/policy/placement_lp.hpp"

namespace strata {
namespace {

/// Linear programs that look for something better than what a dive found, where pairs of chunks are
/// not exchanged, or for anything at all where it found nothing.
constexpr uint32_t kMoreSolves = 200;
/// A dive takes a third of what is left at a time, some 15 times; few that take longer find
/// anything.
constexpr uint32_t kDiveSolves = 30;

}  // namespace

/// Room that choices leave, kept up to date while they change.
class PlacementProgram::Filler {
 public:
  Filler(const PlacementProgram& p, std::vector<Choice>& choices)
      : p_(p),
        choices_(choices),
        device_(free_units(p.model_, choices, p.room_.device)),
        host_(int64_t{p.room_.host} - p.staging_units(choices)),
        nvme_(p.room_.nvme) {
    for (size_t i = 0; i < choices.size(); ++i) count_home(i, -1);
  }

  /// One or more objects' other choices.
  struct Change {
    std::vector<std::pair<size_t, Choice>> to;
    double density = 0;  // saved for each unit, and on the device slot, that it takes more
  };
  void add(std::vector<std::pair<size_t, Choice>> to) {
    double saved = 0, more = 0;
    for (const auto& [i, choice] : to) {
      saved += p_.cost_of(i, choices_[i]) - p_.cost_of(i, choice);
      more += p_.held_by(i, choice) - p_.held_by(i, choices_[i]);
    }
    if (saved > 0) changes_.push_back({std::move(to), saved / std::max(more, 1e-3)});
  }
  /// Makes the changes that fit, the densest first.
  void apply() {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.density > b.density; });
    for (const Change& c : changes_) {
      const bool newer = std::any_of(c.to.begin(), c.to.end(), [&](const auto& t) {
        return p_.cost_of(t.first, choices_[t.first]) < p_.cost_of(t.first, t.second);
      });
      if (!newer) try_change(c);
    }
    changes_.clear();
  }

 private:
  void count_home(size_t i, int sign) {
    const int64_t units = sign * int64_t{p_.model_.objects[i].units};
    if (choices_[i].home == Place::host) host_ += units;
    if (choices_[i].home == Place::nvme) nvme_ += units;
  }
  void count(size_t i, int sign) {
    count_home(i, sign);
    p_.model_.for_each_kept_slot(
        p_.model_.objects[i], choices_[i],
        [&](uint32_t t, uint32_t units) { device_[t] += sign * int64_t{units}; });
  }
  bool valid() const {
    return host_ >= 0 && nvme_ >= 0 &&
           std::all_of(device_.begin(), device_.end(), [](int64_t n) { return n >= 0; });
  }
  void swap(Change& c) {
    for (auto& [i, choice] : c.to) {
      count(i, 1);
      std::swap(choices_[i], choice);
      count(i, -1);
    }
  }
  void try_change(Change c) {
    swap(c);
    if (!valid()) swap(c);
  }

  const PlacementProgram& p_;
  std::vector<Choice>& choices_;
  std::vector<int64_t> device_;
  int64_t host_, nvme_;
  std::vector<Change> changes_;
};

/// Units an object holds on average beside its uses, in memory.
double PlacementProgram::held_by(size_t i, const Choice& choice) const {
  const StepModel::Object& o = model_.objects[i];
  uint64_t slots = 0;
  model_.for_each_kept_slot(o, choice, [&](uint32_t, uint32_t units) { slots += units; });
  return static_cast<double>(slots) / model_.slots() + (choice.home == Place::host ? o.units : 0);
}

/// What rounding left free is filled.
void PlacementProgram::fill(std::vector<Choice>& choices, bool moves_homes) const {
  if (choices.empty()) return;
  Filler filler(*this, choices);
  const auto at = [&](size_t i, Place home) {
    Choice c = choices[i];
    c.home = home;
    if (home == Place::device) c.kept.assign(c.kept.size(), true);
    return c;
  };
  std::map<ChunkId, std::vector<std::pair<size_t, Choice>>> whole;
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& c = choices[i];
    if (c.home == Place::device) continue;
    for (size_t e = 0; e < c.kept.size(); ++e) {
      if (!moves_[i].gap_counts[e] || c.kept[e] || variables_[i].kept[e] == kNone) continue;
      Choice kept = c;
      kept.kept[e] = true;
      filler.add({{i, std::move(kept)}});
    }
    if (!moves_homes) continue;
    if (c.home == Place::nvme && room_.host != 0) filler.add({{i, at(i, Place::host)}});
    if (model_.updates_on_device) {
      filler.add({{i, at(i, Place::device)}});
    } else {
      whole[model_.objects[i].id.chunk].emplace_back(i, at(i, Place::device));
    }
  }
  for (auto& [chunk, changes] : whole) filler.add(std::move(changes));
  filler.apply();
}

std::vector<Choice> PlacementProgram::round(uint32_t most_on_nvme, bool exchanges) const {
  std::vector<Choice> best;
  std::vector<uint32_t> more = staging_choices();
  std::reverse(more.begin(), more.end());
  uint32_t found = 0;
  for (const uint32_t n : more) {
    if (n < most_on_nvme) continue;
    Staged s = staged(n);
    std::vector<LinearProgram> tries = {s.program};
    if (whole_ != kNone && exchanges) {
      const LinearSolution relaxed = solve(s.program);
      if (!relaxed.feasible) continue;
      const double whole = std::floor(relaxed.x[whole_] + 1e-6);
      tries[0].set_bounds(whole_, whole, whole);
      tries.push_back(s.program);
      tries[1].set_bounds(whole_, whole + 1, s.program.upper(whole_));
    }
    bool any = false;
    for (const LinearProgram& p : tries) {
      LinearSolution found = dive(p, s.integers, exchanges ? UINT32_MAX : kDiveSolves);
      const bool last_try = !found.feasible && n == more.back() && best.empty();
      if (last_try || (exchanges && model_.updates_on_device)) {
        found = branch_and_bound(p, s.integers, found, kMoreSolves);
      }
      std::vector<Choice> tried = choices(found);
      if (tried.empty()) continue;
      any = true;
      fill(tried, true);
      if (exchanges) exchange(tried);
      if (best.empty() || cost_of(tried) < cost_of(best)) best = std::move(tried);
    }
    found += any;
    if (found == (exchanges ? 2 : 1)) break;
  }
  return best;
}

std::vector<Choice> PlacementProgram::round_exactly(uint32_t most_solves) const {
  std::vector<Choice> best = round(cheapest_staging(), true);
  for (const uint32_t n : staging_choices()) {
    const Staged s = staged(n);
    LinearSolution start;  // only what is cheaper counts
    start.feasible = !best.empty();
    start.value = start.feasible ? cost_of(best) : 0;
    const LinearSolution found = branch_and_bound(s.program, s.integers, start, most_solves);
    if (!found.x.empty()) best = choices(found);
  }
  return best;
}

void PlacementProgram::keep_what_fits(std::vector<Choice>& choices) const { fill(choices, false); }

}  // namespace strata
