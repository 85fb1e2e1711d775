// Choosing again for two chunks at a time.
#include <algorithm>

#include "offload/policy/placement_lp.hpp"

namespace strata {
namespace {

/// Passes over all pairs; choices hardly ever change in more than a few.
constexpr uint32_t kMostPasses = 8;
/// Of all that is chosen for a chunk, the most that is tried.
constexpr size_t kMostColumns = 40;
/// How much of the memory's price counts among what costs the same: less memory is better.
constexpr double kTie = 1e-3;

}  // namespace

class PlacementProgram::Exchanger {
 public:
  Exchanger(const PlacementProgram& p, std::vector<Choice>& choices)
      : p_(p),
        choices_(choices),
        staging_(p.staging_units(choices)),
        host_(int64_t{p.room_.host} - staging_),
        nvme_(p.room_.nvme) {
    for (const Run& r : p.runs_) free_.push_back(r.room);
    const LinearSolution relaxed = solve(p.staged(static_cast<uint32_t>(staging_ / 2)).program);
    const double gap = std::max(0.0, p.cost_of(choices) - relaxed.value);
    for (const Run& r : p.runs_) {
      run_price_.push_back(std::max(0.0, -relaxed.variable_price[r.variable]));
    }
    host_price_ = std::max(0.0, -relaxed.row_price[p.host_row_]);
    for (size_t i = 0; i < p.model_.objects.size();) {
      Chunk c{i, p.end_of_chunk(i), {}, 0};
      list_columns(c, gap);
      i = c.end;
      take(c.columns[c.chosen], 1);
      chunks_.push_back(std::move(c));
    }
  }

  void run() {
    bool improved = true;
    for (uint32_t pass = 0; improved && pass < kMostPasses; ++pass) {
      improved = false;
      for (size_t a = 0; a < chunks_.size(); ++a) {
        for (size_t b = a + 1; b < chunks_.size(); ++b) {
          improved = choose_again(chunks_[a], chunks_[b]) || improved;
        }
      }
    }
    for (const Chunk& c : chunks_) {
      std::copy(c.columns[c.chosen].choices.begin(), c.columns[c.chosen].choices.end(),
                choices_.begin() + static_cast<std::ptrdiff_t>(c.first));
    }
  }

 private:
  /// Units of the device over some runs.
  struct Range {
    size_t begin, end;
    int64_t units;
  };
  /// All choices of a chunk.
  struct Column {
    std::vector<Choice> choices;
    double cost = 0, priced = 0;  // priced: with what memory it takes
    int64_t host = 0, nvme = 0;
    std::vector<Range> device = {};
  };
  struct Chunk {
    size_t first, end;  // objects
    std::vector<Column> columns;
    size_t chosen;
  };

  /// One object's part of a column.
  struct Option {
    Choice choice;
    double cost, priced;
    std::vector<Range> device;
  };

  Option option(size_t i, Choice choice) const {
    const StepModel::Object& o = p_.model_.objects[i];
    const double cost = p_.cost_of(i, choice);
    Option out{std::move(choice), cost, cost, {}};
    if (out.choice.home == Place::host) out.priced += o.units * host_price_;
    std::vector<int64_t> slots(p_.model_.slots(), 0);
    p_.model_.for_each_kept_slot(o, out.choice,
                                 [&](uint32_t t, uint32_t units) { slots[t] += units; });
    for (size_t r = 0; r < p_.runs_.size(); ++r) {
      const int64_t units = slots[p_.runs_[r].begin];
      out.priced += static_cast<double>(units) * run_price_[r];
      append(out.device, {r, r + 1, units});
    }
    return out;
  }

  static void append(std::vector<Range>& ranges, const Range& r) {
    if (r.units == 0 || r.begin == r.end) return;
    if (!ranges.empty() && ranges.back().end == r.begin && ranges.back().units == r.units) {
      ranges.back().end = r.end;
    } else {
      ranges.push_back(r);
    }
  }

  /// Both at once.
  static std::vector<Range> sum(const std::vector<Range>& x, const std::vector<Range>& y) {
    std::vector<std::pair<size_t, int64_t>> steps;
    for (const auto* ranges : {&x, &y}) {
      for (const Range& r : *ranges) {
        steps.emplace_back(r.begin, r.units);
        steps.emplace_back(r.end, -r.units);
      }
    }
    std::sort(steps.begin(), steps.end());
    std::vector<Range> out;
    int64_t units = 0;
    for (size_t k = 0; k < steps.size(); ++k) {
      units += steps[k].second;
      if (k + 1 < steps.size()) append(out, {steps[k].first, steps[k + 1].first, units});
    }
    return out;
  }

  void add(Column& c, size_t i, const Option& o) const {
    const int64_t units = p_.model_.objects[i].units;
    c.choices.push_back(o.choice);
    c.cost += o.cost;
    c.priced += o.priced;
    if (o.choice.home == Place::host) c.host += units;
    if (o.choice.home == Place::nvme) c.nvme += units;
    c.device = sum(c.device, o.device);
  }

  /// What one object can be with its chunk below the device.
  std::vector<Option> below_device(size_t i) const {
    const StepModel::Object& o = p_.model_.objects[i];
    std::vector<size_t> gaps;
    for (size_t e = 0; e < o.events.size(); ++e) {
      if (p_.variables_[i].kept[e] != kNone) gaps.push_back(e);
    }
    std::vector<Option> out;
    for (const Place home : {Place::host, Place::nvme}) {
      // Of many gaps, all or none are kept.
      const size_t sets = gaps.size() > 4 ? 2 : size_t{1} << gaps.size();
      for (size_t set = 0; set < sets; ++set) {
        Choice c{home, std::vector<bool>(o.events.size(), false)};
        for (size_t g = 0; g < gaps.size(); ++g) {
          c.kept[gaps[g]] = (set >> (gaps.size() > 4 ? 0 : g) & 1) != 0;
        }
        out.push_back(option(i, std::move(c)));
      }
    }
    return out;
  }

  /// What may be part of something cheaper by `gap` than what is chosen: by the prices of the
  /// relaxed program, nothing that is dearer than the cheapest by more.
  void list_columns(Chunk& c, double gap) const {
    std::vector<Column> columns(1);
    const auto keep_best = [&](size_t most) {
      std::stable_sort(columns.begin(), columns.end(),
                       [](const Column& a, const Column& b) { return a.priced < b.priced; });
      if (columns.empty()) return;
      const double limit = columns.front().priced + gap * (1 + 1e-9) + 1e-12;
      while (columns.size() > most || (!columns.empty() && columns.back().priced > limit)) {
        columns.pop_back();
      }
    };
    for (size_t i = c.first; i < c.end; ++i) {
      std::vector<Column> longer;
      const std::vector<Option> options = below_device(i);
      for (const Column& column : columns) {
        for (const Option& o : options) {
          // Planes that are alike are exchangeable.
          const bool swapped = i + 1 == c.end && p_.model_.objects[i].id.plane == Plane::v &&
                               o.choice.home == Place::host &&
                               column.choices.back().home == Place::nvme;
          if (swapped) continue;
          longer.push_back(column);
          add(longer.back(), i, o);
          if (2 * longer.back().nvme > staging_) longer.pop_back();
        }
      }
      columns = std::move(longer);
      keep_best(4 * kMostColumns);
    }
    Column whole, chosen;
    for (size_t i = c.first; i < c.end; ++i) {
      add(whole, i, option(i, {Place::device, std::vector<bool>(choices_[i].kept.size(), true)}));
      add(chosen, i, option(i, choices_[i]));
    }
    columns.push_back(whole);
    keep_best(kMostColumns);
    columns.push_back(std::move(chosen));
    for (Column& column : columns) {
      column.priced = column.cost + kTie * (column.priced - column.cost);
    }
    c.chosen = columns.size() - 1;
    const Choice* const now = columns[c.chosen].choices.data();
    std::vector<Choice> current(now, now + (c.end - c.first));
    std::stable_sort(columns.begin(), columns.end(),
                     [](const Column& a, const Column& b) { return a.priced < b.priced; });
    for (c.chosen = 0; columns[c.chosen].choices != current; ++c.chosen) {
    }
    c.columns = std::move(columns);
  }

  void take(const Column& c, int sign) {
    host_ -= sign * c.host;
    nvme_ -= sign * c.nvme;
    for (const Range& r : c.device) {
      for (size_t i = r.begin; i < r.end; ++i) free_[i] -= sign * r.units;
    }
  }
  bool fits(const Column& c) const {
    if (c.host > host_ || c.nvme > nvme_) return false;
    return std::all_of(c.device.begin(), c.device.end(), [&](const Range& r) {
      return std::all_of(free_.begin() + static_cast<std::ptrdiff_t>(r.begin),
                         free_.begin() + static_cast<std::ptrdiff_t>(r.end),
                         [&](int64_t n) { return n >= r.units; });
    });
  }

  bool choose_again(Chunk& a, Chunk& b) {
    double best = a.columns[a.chosen].priced + b.columns[b.chosen].priced;
    const double enough = 1e-9 * best;
    // Nothing is cheaper than both at their cheapest.
    if (a.columns[0].priced + b.columns[0].priced >= best - enough) return false;
    take(a.columns[a.chosen], -1);
    take(b.columns[b.chosen], -1);
    bool improved = false;
    for (size_t i = 0; i < a.columns.size(); ++i) {
      const Column& of_a = a.columns[i];
      if (of_a.priced + b.columns[0].priced >= best - enough) break;
      if (!fits(of_a)) continue;
      take(of_a, 1);
      for (size_t j = 0; j < b.columns.size(); ++j) {
        const double priced = of_a.priced + b.columns[j].priced;
        if (priced >= best - enough) break;
        if (!fits(b.columns[j])) continue;
        best = priced;
        a.chosen = i;
        b.chosen = j;
        improved = true;
      }
      take(of_a, -1);
    }
    take(a.columns[a.chosen], 1);
    take(b.columns[b.chosen], 1);
    return improved;
  }

  const PlacementProgram& p_;
  std::vector<Choice>& choices_;
  int64_t staging_, host_, nvme_;
  double host_price_ = 0;
  std::vector<int64_t> free_;  // device units, by run
  std::vector<double> run_price_;
  std::vector<Chunk> chunks_;
};

void PlacementProgram::exchange(std::vector<Choice>& choices) const {
  if (choices.empty() || model_.updates_on_device || room_.host == 0 || room_.nvme == 0) return;
  Exchanger(*this, choices).run();
}

}  // namespace strata
