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
  if (!model_.updates_on_device) count_whole_chunks();
}

/// See the rules in the header. A gap counts when it costs something not to keep the object in it
/// and keeping it is possible.
PlacementProgram::Moves PlacementProgram::moves_of(const StepModel::Object& o) const {
  const double units = o.units;
  const LinkUnits in_host{units, 0, 0, 0}, out_host{0, units, 0, 0};
  const LinkUnits in_nvme{0, 0, units, 0}, out_nvme{0, 0, 0, units};
  Moves m;
  m.gap_counts.assign(o.events.size(), false);
  m.gaps.resize(o.events.size());
  const bool updated =
      std::any_of(o.events.begin(), o.events.end(), [](const auto& e) { return e.update; });
  const bool gradient = o.id.plane == Plane::grad;
  const bool on_device = model_.updates_on_device;
  HomeMoves out_and_in{{}, in_host, in_nvme};
  if (gradient) {
    out_and_in.host.add(out_host);
    out_and_in.nvme.add(out_nvme);
  }
  for (size_t e = 0; e < o.events.size(); ++e) {
    const StepModel::Event& next = o.events[(e + 1) % o.events.size()];
    const bool from_update = o.events[e].update, to_update = next.update;
    if (gradient && from_update) continue;  // nothing is left of it
    if (on_device || (!from_update && !to_update)) {
      m.gap_counts[e] = !model_.gap(o, e).empty();
      m.gaps[e] = out_and_in;
    } else if (from_update && !to_update) {
      // Copies on the device are behind what the update made.
      m.kept.host.add(in_host);
      m.kept.nvme.add(in_nvme);
    } else if (!from_update) {
      // To an update below the device, which starts from what is kept until then.
      m.gap_counts[e] = !model_.gap(o, e).empty();
      if (gradient) m.kept.host.add(out_host);
      m.kept.nvme.add(out_host);
      m.gaps[e].nvme = out_and_in.nvme;
      m.gaps[e].nvme.add(out_host, -1);
    } else {  // records, from one update to the next
      m.kept.nvme.add(in_nvme);
    }
  }
  if (gradient && o.speculated) {
    m.kept.host.add(out_host);
    m.kept.nvme.add(out_nvme);
  } else if (o.speculated) {
    m.kept.device.add(out_nvme);
  }
  if (!updated || gradient) return m;
  if (on_device) m.kept.host.add(out_host);
  m.kept.nvme.add(out_nvme);
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
  if (host) host_row_ = program_.add_row(0, room_.host);
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
    const Place below = nvme ? Place::nvme : Place::host;
    const LinkUnits home = m.kept.at(below);  // unless something better is chosen
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
      charge(v.device, m.kept.device, factor);
      const auto whole = resident.try_emplace(o.id.chunk, kNone).first;
      if (whole->second == kNone) whole->second = add_variable({}, factor);
      charge(whole->second, m.kept.device, -factor);
      const uint32_t row = program_.add_row(-LinearProgram::kInfinity, 0);
      program_.add(row, whole->second, 1);
      program_.add(row, v.device, -1);
    }
    program_.add(nvme_row, v.device, o.units);
    if (host && nvme) {
      v.host = add_variable(m.kept.host, factor);
      charge(v.host, m.kept.nvme, -factor);
      integers_.push_back(v.host);
      program_.add(host_row_, v.host, o.units);
      program_.add(nvme_row, v.host, o.units);
      const uint32_t one_home = program_.add_row(0, 1);
      program_.add(one_home, v.host, 1);
      program_.add(one_home, v.device, 1);
    } else if (host) {  // what is not on the device is on the host
      program_.add(host_row_, v.device, -static_cast<double>(o.units));
    }
    for (size_t e = 0; e < o.events.size(); ++e) {
      if (!m.gap_counts[e]) continue;
      const LinkUnits gap = m.gaps[e].at(below);
      charge_always(gap, factor);
      if (o.events.size() == 1) {  // kept all the time: it lives there
        charge(v.device, gap, -factor);
        if (v.host != kNone) {
          charge(v.host, m.gaps[e].host, factor);
          charge(v.host, m.gaps[e].nvme, -factor);
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
      const uint32_t saved = add_variable(m.gaps[e].host, factor);
      charge(saved, m.gaps[e].nvme, -factor);
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
    program_.set_row_bounds(host_row_, -LinearProgram::kInfinity, room_.host - all);
  }
}

/// With room on the host for two updates of chunks that have at most so many units on NVMe: one is
/// written back while the next is read. Each chunk below the device has one of the largest sets of
/// planes with so few units, and of them some on NVMe.
PlacementProgram::Staged PlacementProgram::staged(uint32_t most_on_nvme) const {
  Staged out{program_, integers_};
  if (!stages_on_host()) return out;
  constexpr double kInfinity = LinearProgram::kInfinity;
  LinearProgram& p = out.program;
  p.set_row_bounds(host_row_, -kInfinity,
                   static_cast<double>(int64_t{room_.host} - 2 * int64_t{most_on_nvme}));
  for (size_t first = 0, end = 0; first < model_.objects.size(); first = end) {
    end = end_of_chunk(first);
    const size_t n = end - first;
    const auto units = [&](uint32_t set) {
      uint32_t sum = 0;
      for (size_t k = 0; k < n; ++k) sum += (set >> k & 1) * model_.objects[first + k].units;
      return sum;
    };
    if (units((1u << n) - 1) <= most_on_nvme) continue;
    // 1 = device + sets; on NVMe, 1 - device - host, are no more than the sets with that plane.
    const uint32_t one_set = p.add_row(1, 1);
    p.add(one_set, variables_[first].device, 1);
    std::vector<uint32_t> rows;
    for (size_t i = first; i < end; ++i) {
      rows.push_back(p.add_row(1, kInfinity));
      p.add(rows.back(), variables_[i].device, 1);
      p.add(rows.back(), variables_[i].host, 1);
    }
    for (uint32_t set = 0; set < 1u << n; ++set) {
      if (units(set) > most_on_nvme) continue;
      bool largest = true;
      for (size_t k = 0; k < n; ++k) {
        if ((set >> k & 1) == 0 && units(set | 1u << k) <= most_on_nvme) largest = false;
      }
      if (!largest) continue;
      const uint32_t chosen = p.add_variable(0);
      out.integers.push_back(chosen);
      p.add(one_set, chosen, 1);
      for (size_t k = 0; k < n; ++k) {
        if ((set >> k & 1) != 0) p.add(rows[k], chosen, 1);
      }
    }
  }
  return out;
}

size_t PlacementProgram::end_of_chunk(size_t i) const {
  const ChunkId chunk = model_.objects[i].id.chunk;
  while (i < model_.objects.size() && model_.objects[i].id.chunk == chunk) ++i;
  return i;
}

/// How many units of a chunk may be on NVMe at most, the largest first.
std::vector<uint32_t> PlacementProgram::staging_choices() const {
  if (!stages_on_host()) return {0};
  uint32_t most = 0;
  for (size_t first = 0, end = 0; first < model_.objects.size(); first = end) {
    uint32_t units = 0;
    end = end_of_chunk(first);
    for (size_t i = first; i < end; ++i) units += model_.objects[i].units;
    most = std::max(most, units);
  }
  std::vector<uint32_t> out;
  for (uint32_t n = most + 1; n-- > 0;) {
    if (2 * n <= room_.host) out.push_back(n);
  }
  return out;
}

template <class Rows>
PlacementProgram::Least PlacementProgram::least(const Rows& add_rows) const {
  Least best;
  for (const uint32_t n : staging_choices()) {
    LinearProgram p = staged(n).program;
    add_rows(p);
    LinearSolution s = whole_ == kNone ? solve(p) : solve_with_whole(std::move(p), whole_);
    const bool better = s.feasible && (!best.solution.feasible || s.value < best.solution.value);
    if (better) best = {std::move(s), n};
  }
  return best;
}

LinearSolution PlacementProgram::relax() const {
  return least([](LinearProgram&) {}).solution;
}

uint32_t PlacementProgram::cheapest_staging() const {
  const std::vector<uint32_t> all = staging_choices();
  return all.size() == 1 ? all.front() : least([](LinearProgram&) {}).most_on_nvme;
}

LinearSolution PlacementProgram::relax_time(const TimeBound& bound) const {
  return least([&](LinearProgram& p) { add_time_rows(p, bound); }).solution;
}

/// Off the device a chunk is there as a whole or not at all: of equal ones a whole number is.
void PlacementProgram::count_whole_chunks() {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> alike;  // by units
  for (size_t first = 0, end = 0; first < model_.objects.size(); first = end) {
    end = end_of_chunk(first);
    uint32_t units = 0, device_units = 0;
    for (size_t i = first; i < end; ++i) {
      units += model_.objects[i].units;
      device_units += model_.objects[i].device_units;
    }
    alike[{device_units, units}].push_back(variables_[first].device);
  }
  const auto most = std::max_element(alike.begin(), alike.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most == alike.end()) return;
  whole_ = program_.add_variable(0, 0, static_cast<double>(most->second.size()));
  const uint32_t row = program_.add_row(0, 0);
  program_.add(row, whole_, -1);
  for (const uint32_t v : most->second) program_.add(row, v, 1);
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
    runs_.push_back({t, end, room, units});
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

LinkUnits PlacementProgram::moves_of(size_t object, const Choice& choice) const {
  const Moves& m = moves_[object];
  LinkUnits sum = m.kept.at(choice.home);
  for (size_t e = 0; e < choice.kept.size(); ++e) {
    if (m.gap_counts[e] && !choice.kept[e]) sum.add(m.gaps[e].at(choice.home));
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

uint32_t PlacementProgram::staging_units(const std::vector<Choice>& choices) const {
  if (!stages_on_host()) return 0;
  std::map<ChunkId, uint32_t> nvme;
  uint32_t most = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].home != Place::nvme) continue;
    uint32_t& n = nvme[model_.objects[i].id.chunk];
    most = std::max(most, n += model_.objects[i].units);
  }
  return 2 * most;
}

bool PlacementProgram::fits(const std::vector<Choice>& choices) const {
  uint64_t host = 0, nvme = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    host += choices[i].home == Place::host ? model_.objects[i].units : 0;
    nvme += choices[i].home == Place::nvme ? model_.objects[i].units : 0;
  }
  const std::vector<int64_t> left = free_units(model_, choices, room_.device);
  host += staging_units(choices);
  return host <= room_.host && nvme <= room_.nvme &&
         std::all_of(left.begin(), left.end(), [](int64_t n) { return n >= 0; });
}

}  // namespace strata
