#include "offload/policy/placement_lp.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace strata {
namespace {

constexpr double kAlmostOne = 1 - 1e-6;

/// The bits of `n` behind the binary point, in reverse: neighbours are far apart.
double van_der_corput(uint32_t n) {
  double out = 0;
  for (double place = 0.5; n != 0; n >>= 1, place /= 2) out += (n & 1) * place;
  return out;
}

}  // namespace

PlacementProgram::PlacementProgram(const StepModel& model, const Room& room, const LinkUnits& costs,
                                   double spread)
    : model_(model), room_(room), links_(costs), spread_(spread) {
  for (const StepModel::Object& o : model_.objects) moves_.push_back(moves_of(o));
  add_objects();
  add_device_rows();
}

/// See the rules in the header. A gap counts when it costs something not to keep the object in it
/// and keeping it is possible.
PlacementProgram::Moves PlacementProgram::moves_of(const StepModel::Object& o) const {
  const double units = o.units;
  const LinkUnits in_host{units, 0, 0, 0}, out_host{0, units, 0, 0};
  const LinkUnits in_nvme{0, 0, units, 0}, out_nvme{0, 0, 0, units};
  Moves m;
  m.gap_counts.assign(o.events.size(), false);
  const bool updated =
      std::any_of(o.events.begin(), o.events.end(), [](const auto& e) { return e.update; });
  const bool gradient = o.id.plane == Plane::grad;
  const bool on_device = model_.updates_on_device;
  m.gap_host.add(in_host).add(out_host, gradient ? 1 : 0);
  m.gap_nvme.add(in_nvme).add(out_nvme, gradient ? 1 : 0);
  for (size_t e = 0; e < o.events.size(); ++e) {
    const StepModel::Event& next = o.events[(e + 1) % o.events.size()];
    const bool from_update = o.events[e].update, to_update = next.update;
    if (gradient && from_update) continue;  // nothing is left of it
    if (on_device || (!from_update && !to_update)) {
      m.gap_counts[e] = !model_.gap(o, e).empty();
    } else if (from_update && !to_update) {
      // Copies on the device are behind what the update made.
      m.host.add(in_host);
      m.nvme.add(in_nvme);
    } else if (gradient) {  // to an update below the device
      m.host.add(out_host);
      m.nvme.add(out_nvme).add(in_nvme);
    }
  }
  if (gradient && o.speculated) {
    m.host.add(out_host);
    m.nvme.add(out_nvme);
  } else if (o.speculated) {
    m.device.add(out_nvme);
  }
  if (!updated || gradient) return m;
  if (on_device) {
    m.host.add(out_host);
    m.nvme.add(out_nvme);
  } else {
    m.nvme.add(in_nvme).add(out_nvme);  // to the host and back
  }
  return m;
}

uint32_t PlacementProgram::add_variable(const LinkUnits& moves, double factor) {
  const uint32_t v = program_.add_variable(0);
  variable_moves_.resize(v + 1);
  charge(v, moves, factor);
  return v;
}

void PlacementProgram::charge(uint32_t v, const LinkUnits& moves, double factor) {
  program_.set_cost(v, program_.cost(v) + factor * moves.dot(links_));
  variable_moves_[v].add(moves, factor < 0 ? -1 : 1);
}

void PlacementProgram::charge_always(const LinkUnits& moves, double factor) {
  program_.add_constant(factor * moves.dot(links_));
  always_.add(moves);
}

void PlacementProgram::add_objects() {
  const bool host = room_.host != 0, nvme = room_.nvme != 0;
  const uint32_t host_row = host ? program_.add_row(0, room_.host) : kNone;
  // N = 1 - D - H: what is neither on the device nor on the host is on NVMe, or must not be.
  double all = 0;
  for (const StepModel::Object& o : model_.objects) all += o.units;
  const uint32_t nvme_row = program_.add_row(nvme   ? all - room_.nvme
                                             : host ? -LinearProgram::kInfinity
                                                    : all,
                                             LinearProgram::kInfinity);
  std::map<ChunkId, uint32_t> whole_chunk, resident;
  for (size_t i = 0; i < model_.objects.size(); ++i) {
    const StepModel::Object& o = model_.objects[i];
    const Moves& m = moves_[i];
    const double factor = 1 + spread_ * van_der_corput(o.id.chunk + 1);
    Variables v;
    v.kept.assign(o.events.size(), kNone);
    const LinkUnits& home = nvme ? m.nvme : m.host;  // unless something better is chosen
    const LinkUnits& gap = nvme ? m.gap_nvme : m.gap_host;
    const auto known = whole_chunk.find(o.id.chunk);
    if (!model_.updates_on_device && known != whole_chunk.end()) {
      v.device = known->second;
      charge(v.device, home, -factor);
    } else {
      v.device = add_variable(home, -factor);
      integers_.push_back(v.device);
      whole_chunk.emplace(o.id.chunk, v.device);
    }
    charge_always(home, factor);
    if (o.speculated) {
      // A chunk that is on the device as a whole needs no older version: no more than each is
      // there.
      charge(v.device, m.device, factor);
      const auto whole = resident.try_emplace(o.id.chunk, kNone).first;
      if (whole->second == kNone) whole->second = add_variable({}, factor);
      charge(whole->second, m.device, -factor);
      const uint32_t row = program_.add_row(-LinearProgram::kInfinity, 0);
      program_.add(row, whole->second, 1);
      program_.add(row, v.device, -1);
    }
    program_.add(nvme_row, v.device, o.units);
    if (host && nvme) {
      v.host = add_variable(m.host, factor);
      charge(v.host, m.nvme, -factor);
      integers_.push_back(v.host);
      program_.add(host_row, v.host, o.units);
      program_.add(nvme_row, v.host, o.units);
      const uint32_t one_home = program_.add_row(0, 1);
      program_.add(one_home, v.host, 1);
      program_.add(one_home, v.device, 1);
    } else if (host) {  // what is not on the device is on the host
      program_.add(host_row, v.device, -static_cast<double>(o.units));
    }
    for (size_t e = 0; e < o.events.size(); ++e) {
      if (!m.gap_counts[e]) continue;
      charge_always(gap, factor);
      if (o.events.size() == 1) {  // kept all the time: it lives there
        charge(v.device, gap, -factor);
        if (v.host != kNone) {
          charge(v.host, m.gap_host, factor);
          charge(v.host, m.gap_nvme, -factor);
        }
        continue;
      }
      v.kept[e] = add_variable(gap, -factor);
      integers_.push_back(v.kept[e]);
      const uint32_t at_home = program_.add_row(0, LinearProgram::kInfinity);
      program_.add(at_home, v.kept[e], 1);
      program_.add(at_home, v.device, -1);
      if (v.host == kNone) continue;
      // From the host it comes cheaper: saved <= not kept, saved <= host home.
      const uint32_t saved = add_variable(m.gap_host, factor);
      charge(saved, m.gap_nvme, -factor);
      const uint32_t not_kept = program_.add_row(-LinearProgram::kInfinity, 1);
      program_.add(not_kept, saved, 1);
      program_.add(not_kept, v.kept[e], 1);
      const uint32_t from_host = program_.add_row(-LinearProgram::kInfinity, 0);
      program_.add(from_host, saved, 1);
      program_.add(from_host, v.host, -1);
    }
    variables_.push_back(std::move(v));
  }
  if (host && !nvme) {
    program_.set_row_bounds(host_row, -LinearProgram::kInfinity, room_.host - all);
  }
}

/// One row for each run of slots in which the same objects may be kept: the tightest of them.
void PlacementProgram::add_device_rows() {
  const std::vector<uint32_t> in_use = model_.units_in_use();
  const uint32_t slots = model_.slots();
  // Where the units of each variable begin and end to count.
  struct Edge {
    uint32_t variable;
    double units;
  };
  std::vector<std::vector<Edge>> edges(slots + 1);
  const auto during = [&](uint32_t begin, uint32_t end, uint32_t variable, double units) {
    const auto range = [&](uint32_t b, uint32_t e) {
      if (b >= e) return;
      edges[b].push_back({variable, units});
      edges[e].push_back({variable, -units});
    };
    range(begin, std::min(end, slots));
    if (end > slots) range(0, end - slots);
  };
  for (size_t i = 0; i < model_.objects.size(); ++i) {
    const StepModel::Object& o = model_.objects[i];
    if (o.device_units == 0) continue;
    for (size_t e = 0; e < o.events.size(); ++e) {
      const StepModel::Gap gap = model_.gap(o, e);
      const uint32_t kept = variables_[i].kept[e];
      during(gap.begin, gap.end, kept != kNone ? kept : variables_[i].device, o.device_units);
      // An update below the device takes no units there, unless the chunk lives there.
      if (o.events[e].update && !model_.updates_on_device) {
        during(o.events[e].first, o.events[e].last + 1, variables_[i].device, o.device_units);
      }
    }
    if (o.events.empty()) during(0, slots, variables_[i].device, o.device_units);
  }
  // A run's units are those of the run before and what changes: rows of a few coefficients, where
  // listing all that is kept would take as many as there are objects.
  constexpr double kInfinity = LinearProgram::kInfinity;
  uint32_t units_before = kNone;
  for (uint32_t t = 0; t < slots;) {
    std::map<uint32_t, double> change;
    for (const Edge& e : edges[t]) change[e.variable] += e.units;
    int64_t room = int64_t{room_.device} - in_use[t];
    uint32_t end = t + 1;
    for (; end < slots && edges[end].empty(); ++end) {
      room = std::min(room, int64_t{room_.device} - in_use[end]);
    }
    const uint32_t units = program_.add_variable(0, -kInfinity, static_cast<double>(room));
    const uint32_t row = program_.add_row(0, 0);
    program_.add(row, units, -1);
    if (units_before != kNone) program_.add(row, units_before, 1);
    for (const auto& [variable, n] : change) {
      if (n != 0) program_.add(row, variable, n);
    }
    units_before = units;
    t = end;
  }
}

std::vector<Choice> PlacementProgram::choices(const LinearSolution& s) const {
  std::vector<Choice> out;
  if (!s.feasible) return out;
  const auto chosen = [&](uint32_t v) { return v != kNone && s.x[v] > kAlmostOne; };
  for (size_t i = 0; i < variables_.size(); ++i) {
    const Variables& v = variables_[i];
    Choice c;
    c.home = chosen(v.device)                    ? Place::device
             : room_.nvme == 0 || chosen(v.host) ? Place::host
                                                 : Place::nvme;
    for (const uint32_t kept : v.kept) {
      c.kept.push_back(c.home == Place::device || chosen(kept));
    }
    out.push_back(std::move(c));
  }
  return out;
}

std::vector<Choice> PlacementProgram::round() const {
  std::vector<Choice> out = choices(dive(program_, integers_));
  fill(out, true);
  return out;
}

void PlacementProgram::keep_what_fits(std::vector<Choice>& choices) const { fill(choices, false); }

std::vector<Choice> PlacementProgram::round_exactly(uint32_t most_solves) const {
  return choices(branch_and_bound(program_, integers_, dive(program_, integers_), most_solves));
}

LinkUnits PlacementProgram::moves_of(size_t object, const Choice& choice) const {
  const Moves& m = moves_[object];
  if (choice.home == Place::device) return m.device;
  LinkUnits sum;
  const bool host = choice.home == Place::host;
  sum.add(host ? m.host : m.nvme);
  for (size_t e = 0; e < choice.kept.size(); ++e) {
    if (m.gap_counts[e] && !choice.kept[e]) sum.add(host ? m.gap_host : m.gap_nvme);
  }
  return sum;
}

LinkUnits PlacementProgram::moves_of(const std::vector<Choice>& choices) const {
  LinkUnits sum;
  for (size_t i = 0; i < choices.size(); ++i) sum.add(moves_of(i, choices[i]));
  return sum;
}

double PlacementProgram::cost_of(const std::vector<Choice>& choices) const {
  return moves_of(choices).dot(links_);
}

double PlacementProgram::cost_when_streamed(size_t object) const {
  const Place home = room_.nvme != 0 ? Place::nvme : Place::host;
  return cost_of(object, {home, std::vector<bool>(model_.objects[object].events.size(), false)});
}

LinkUnits PlacementProgram::moves_of(const LinearSolution& s) const {
  LinkUnits sum = always_;
  for (size_t v = 0; v < variable_moves_.size(); ++v) sum.add(variable_moves_[v], s.x[v]);
  return sum;
}

LinearSolution PlacementProgram::relax_time(const TimeBound& bound) const {
  constexpr double kInfinity = LinearProgram::kInfinity;
  LinearProgram p = program_;
  for (uint32_t v = 0; v < p.variables(); ++v) p.set_cost(v, 0);
  p.add_constant(-p.constant());
  const uint32_t time = p.add_variable(1, 0, kInfinity);
  // seconds of what is moved over some links, and `more`, are no longer than the step
  const auto row = [&](const LinkUnits& costs, double more) {
    const uint32_t r = p.add_row(-kInfinity, -more - always_.dot(costs));
    for (uint32_t v = 0; v < variable_moves_.size(); ++v) {
      const double seconds = variable_moves_[v].dot(costs);
      if (seconds != 0) p.add(r, v, seconds);
    }
    p.add(r, time, -1);
    return r;
  };
  const LinkUnits h2d{links_.h2d, 0, 0, 0}, d2h{0, links_.d2h, 0, 0};
  if (bound.one_processor) {
    row({links_.h2d, links_.d2h, 0, 0}, bound.compute_seconds + bound.update_seconds);
  } else {
    row(h2d, 0);
    row(d2h, 0);
    row({}, bound.compute_seconds);
  }
  if (!bound.one_drive) {
    row({0, 0, links_.nvme_read, 0}, 0);
    row({0, 0, 0, links_.nvme_write}, 0);
    return solve(p);
  }
  const uint32_t drive = row({0, 0, links_.nvme_read, links_.nvme_write}, 0);
  if (bound.saved_by_mixing > 0) {
    // Units that are read while as many are written.
    const uint32_t mixed = p.add_variable(0, 0, kInfinity);
    p.add(drive, mixed, -bound.saved_by_mixing);
    for (const LinkUnits& way : {LinkUnits{0, 0, 1, 0}, LinkUnits{0, 0, 0, 1}}) {
      const uint32_t r = p.add_row(-kInfinity, always_.dot(way));
      for (uint32_t v = 0; v < variable_moves_.size(); ++v) {
        const double units = variable_moves_[v].dot(way);
        if (units != 0) p.add(r, v, -units);
      }
      p.add(r, mixed, 1);
    }
  }
  return solve(p);
}

bool PlacementProgram::fits(const std::vector<Choice>& choices) const {
  uint64_t host = 0, nvme = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    host += choices[i].home == Place::host ? model_.objects[i].units : 0;
    nvme += choices[i].home == Place::nvme ? model_.objects[i].units : 0;
  }
  const std::vector<int64_t> left = free_units(model_, choices, room_.device);
  return host <= room_.host && nvme <= room_.nvme &&
         std::all_of(left.begin(), left.end(), [](int64_t n) { return n >= 0; });
}

/// Room that choices leave, kept up to date while they change.
class PlacementProgram::Filler {
 public:
  Filler(const PlacementProgram& p, std::vector<Choice>& choices)
      : p_(p),
        choices_(choices),
        device_(free_units(p.model_, choices, p.room_.device)),
        host_(p.room_.host),
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

}  // namespace strata
