#include "offload/policy/fetch_schedule.hpp"

#include <algorithm>

namespace strata {
namespace {

/// No fetch is issued more slots ahead.
constexpr uint32_t kFurthestAhead = 512;

struct Fetch {
  ObjId object;
  uint32_t units;
  uint32_t needed;    // slot; may lie in the next step
  uint32_t earliest;  // slot
  uint32_t issued = 0;
};

/// What is not on the device at each slot's use and has content to be fetched.
std::vector<Fetch> list_fetches(const StepModel& m, const std::vector<Choice>& choices) {
  std::vector<Fetch> out;
  for (size_t i = 0; i < choices.size(); ++i) {
    const StepModel::Object& o = m.objects[i];
    if (choices[i].home == Place::device || o.id.plane > Plane::grad) continue;
    for (size_t e = 0; e < o.events.size(); ++e) {
      const StepModel::Event& next = o.events[(e + 1) % o.events.size()];
      const StepModel::Gap gap = m.gap(o, e);
      const bool born = o.id.plane == Plane::grad && o.events[e].update;
      const bool stays = m.updates_on_device && gap.empty();
      if (choices[i].kept[e] || stays || born || next.update) continue;
      out.push_back({o.id, o.device_units, std::max(gap.begin, gap.end), gap.begin});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Fetch& a, const Fetch& b) { return a.needed < b.needed; });
  return out;
}

/// Walks the slots of some steps; what one step holds back, the next finds as it was left.
void issue_early(std::vector<Fetch>& fetches, const std::vector<int64_t>& free_in_step,
                 bool cyclic) {
  const auto slots = static_cast<uint32_t>(free_in_step.size());
  const uint32_t steps = cyclic ? 3 : 1;
  std::vector<int64_t> free;
  for (uint32_t s = 0; s < steps + 1; ++s) {
    free.insert(free.end(), free_in_step.begin(), free_in_step.end());
  }
  struct Due {
    uint32_t needed, earliest;
    size_t fetch;
    uint32_t step;
  };
  std::vector<Due> due;
  for (uint32_t s = 0; s < steps; ++s) {
    for (size_t k = 0; k < fetches.size(); ++k) {
      const Fetch& f = fetches[k];
      if (!cyclic && f.needed >= slots) continue;
      // A use in the next step belongs to this step's end.
      due.push_back({f.needed + s * slots, f.earliest + s * slots, k, s});
    }
  }
  std::stable_sort(due.begin(), due.end(),
                   [](const Due& a, const Due& b) { return a.needed < b.needed; });
  size_t head = 0;
  for (uint32_t t = 0; t < free.size() && head < due.size(); ++t) {
    while (head < due.size()) {
      const Due& d = due[head];
      Fetch& f = fetches[d.fetch];
      if (t < d.needed) {
        if (t < d.earliest || t + kFurthestAhead < d.needed) break;
        const auto begin = free.begin() + t, end = free.begin() + d.needed;
        if (std::any_of(begin, end, [&](int64_t n) { return n < f.units; })) break;
        std::for_each(begin, end, [&](int64_t& n) { n -= f.units; });
      }
      f.issued = std::min(t, d.needed) - d.step * slots;  // the last step's stays
      ++head;
    }
  }
}

}  // namespace

std::vector<Action> schedule_transfers(const StepModel& m, const std::vector<Choice>& choices,
                                       uint32_t device_units, bool cyclic) {
  const uint32_t slots = m.slots();
  std::vector<int64_t> free = free_units(m, choices, device_units);
  std::vector<Fetch> fetches = list_fetches(m, choices);
  issue_early(fetches, free, cyclic);
  struct Timed {
    uint32_t slot;
    int order;
    Action action;
  };
  std::vector<Timed> timed;
  const auto add = [&](Act act, ObjId id, uint32_t slot, int order) {
    slot %= slots;
    if (m.op_of[slot] < m.ops) {
      timed.push_back({slot, order, {act, id, m.op_of[slot]}});
    } else if (cyclic) {  // what comes after the last op is the first thing of the next step
      timed.push_back({0, order - 3, {act, id, 0}});
    }
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    const StepModel::Object& o = m.objects[i];
    if (choices[i].home == Place::device || o.id.plane > Plane::grad) continue;
    for (size_t e = 0; e < o.events.size(); ++e) {
      const StepModel::Gap gap = m.gap(o, e);
      const bool from_update = o.events[e].update;
      const bool to_update = o.events[(e + 1) % o.events.size()].update;
      if (choices[i].kept[e] || gap.empty()) continue;
      // The engine itself drops what an update leaves behind, gradients before theirs, and weights
      // that it does not start from.
      const bool starts_from_home = to_update && choices[i].home == Place::host;
      const bool gone = o.id.plane == Plane::grad
                            ? from_update || to_update
                            : !m.updates_on_device && (from_update || starts_from_home);
      if (!gone) add(Act::evict, o.id, gap.begin, 0);
    }
  }
  for (ChunkId c = 0; c < m.update_slot.size(); ++c) {
    if (m.update_slot[c] == UINT32_MAX) continue;
    add(Act::update, {c, Plane::weight}, m.update_slot[c], 1);
  }
  for (const Fetch& f : fetches) {
    if (cyclic || f.needed < slots) add(Act::fetch, f.object, f.issued, 2);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) {
    return a.slot != b.slot ? a.slot < b.slot : a.order < b.order;
  });
  std::vector<Action> out;
  out.reserve(timed.size());
  for (const Timed& t : timed) out.push_back(t.action);
  return out;
}

}  // namespace strata
