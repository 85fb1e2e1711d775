#include "cli/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "offload/residency.hpp"
#include "runtime/files/file_io.hpp"
#include "runtime/files/watched_files.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kStreams = 1, kResidency = 2;  // as processes
/// Threads of waits begin here, where a stream's work goes on while it waits.
constexpr int kWaitThreads = 10;

bool on_drive(Resource r) { return r == Resource::nvme_read || r == Resource::nvme_write; }

class Writer {
 public:
  Writer(const Timeline& timeline, const TimelineNames& names)
      : timeline_(timeline), names_(names) {
    double first = std::numeric_limits<double>::infinity();
    for (size_t r = 0; r < kResources; ++r) {
      const auto resource = static_cast<Resource>(r);
      for (const auto events : {timeline.work(resource), timeline.waits(resource)}) {
        for (const TimelineEvent& e : events) first = std::min(first, e.begin);
      }
    }
    if (std::isfinite(first)) zero_ = first;
  }

  Json write() {
    name_processes();
    for (size_t r = 0; r < kResources; ++r) add_stream(static_cast<Resource>(r));
    const Residency residency(timeline_, names_.program);
    add_usage(residency);
    add_residency(residency);
    Json other = names_.about;
    other["source"] = names_.source;
    other["first_step"] = timeline_.window().first + 1;
    other["steps"] = timeline_.window().count;
    other["complete"] = timeline_.complete();
    return {{"displayTimeUnit", "ms"}, {"otherData", other}, {"traceEvents", events_}};
  }

 private:
  static double micro_of(double seconds) { return std::round(seconds * 1e9) / 1e3; }
  double micro(double seconds) const { return micro_of(seconds - zero_); }

  void add_meta(int pid, int tid, const char* what, const std::string& name, int order) {
    events_.push_back(
        {{"ph", "M"}, {"pid", pid}, {"tid", tid}, {"name", what}, {"args", {{"name", name}}}});
    const char* const sort =
        std::string_view(what) == "process_name" ? "process_sort_index" : "thread_sort_index";
    events_.push_back({{"ph", "M"},
                       {"pid", pid},
                       {"tid", tid},
                       {"name", sort},
                       {"args", {{"sort_index", order}}}});
  }

  void name_processes() {
    add_meta(kStreams, 0, "process_name", "streams", 0);
    add_meta(kResidency, 0, "process_name", "on the device", 1);
    for (size_t r = 0; r < kResources; ++r) {
      const auto resource = static_cast<Resource>(r);
      const auto tid = static_cast<int>(r) + 1;
      if (timeline_.work(resource).empty() && timeline_.waits(resource).empty()) continue;
      add_meta(kStreams, tid, "thread_name", name_of(resource), tid * 2);
      if (on_drive(resource)) {
        add_meta(kStreams, tid + kWaitThreads, "thread_name",
                 std::string(name_of(resource)) + " waits", tid * 2 + 1);
      }
    }
  }

  void add_slice(int pid, int tid, const std::string& name, const char* category, double begin,
                 double end, Json args) {
    events_.push_back({{"ph", "X"},
                       {"pid", pid},
                       {"tid", tid},
                       {"name", name},
                       {"cat", category},
                       {"ts", micro(begin)},
                       {"dur", micro_of(end - begin)},
                       {"args", std::move(args)}});
  }

  static std::string name(const WorkItem& w) {
    switch (w.work) {
      case Work::move: return fmt::format("{} {}", name_of(w.plane), w.index);
      case Work::update: return fmt::format("update {}", w.index);
      case Work::norm: return "norm";
      default: return "other";
    }
  }

  std::string tensors(ChunkId c) const {
    const auto pieces = names_.layout.in_chunk(c);
    if (pieces.empty()) return {};
    const auto& params = names_.layout.params();
    std::string out = params[pieces.front().param].name;
    if (pieces.size() > 1) out += " to " + params[pieces.back().param].name;
    return out;
  }

  uint64_t step(const WorkItem& w) const { return timeline_.window().first + w.step + 1; }

  void add_stream(Resource r) {
    const auto tid = static_cast<int>(r) + 1;
    for (const TimelineEvent& e : timeline_.work(r)) add_work(tid, e, WorkItem::of(e.label));
    for (const TimelineEvent& e : timeline_.waits(r)) {
      add_wait(r, on_drive(r) ? tid + kWaitThreads : tid, e, WorkItem::of(e.label));
    }
  }

  void add_work(int tid, const TimelineEvent& e, const WorkItem& w) {
    Json args = {{"step", step(w)}};
    switch (w.work) {
      case Work::op: {
        const ProgramOp& op = names_.program.ops()[w.index];
        const BlockCall& call = names_.program.calls()[op.call];
        args.update({{"op", w.index},
                     {"block", call.block},
                     {"call", name_of(call.kind)},
                     {"micro_batch", call.micro_batch}});
        return add_slice(kStreams, tid, op.name, "op", e.begin, e.end, std::move(args));
      }
      case Work::move:
        args.update({{"chunk", w.index},
                     {"plane", name_of(w.plane)},
                     {"from", name_of(w.from)},
                     {"to", name_of(w.to)},
                     {"bytes", names_.shape.units(w.object()) * names_.shape.unit_bytes()},
                     {"tensors", tensors(w.index)}});
        return add_slice(kStreams, tid, name(w), "move", e.begin, e.end, std::move(args));
      case Work::update:
        args.update({{"chunk", w.index}, {"tensors", tensors(w.index)}});
        return add_slice(kStreams, tid, name(w), "update", e.begin, e.end, std::move(args));
      default: return add_slice(kStreams, tid, name(w), "norm", e.begin, e.end, std::move(args));
    }
  }

  void add_wait(Resource r, int tid, const TimelineEvent& e, const WorkItem& w) {
    const bool cores = e.on == r;
    const WorkItem on = WorkItem::of(e.on_label);
    Json args = {{"step", step(w)}, {"on", cores ? "cores" : name_of(e.on)}};
    if (!cores) {
      args["for"] = on.work == Work::op ? names_.program.ops()[on.index].name : name(on);
      if (on.work == Work::move || on.work == Work::update) args["chunk"] = on.index;
    }
    if (w.work == Work::op) {
      args["op"] = w.index;
      args["before"] = names_.program.ops()[w.index].name;
    }
    add_slice(kStreams, tid, fmt::format("wait: {}", cores ? "cores" : name_of(e.on)), "wait",
              e.begin, e.end, std::move(args));
    if (r == Resource::compute && !cores && on.work == Work::move && on.timed) add_arrow(e);
  }

  /// From the middle of a transfer to the op that it held up.
  void add_arrow(const TimelineEvent& wait) {
    const auto [begin, end] = times_of(wait.on, wait.on_label);
    if (end <= begin) return;
    const int id = ++arrows_;
    events_.push_back({{"ph", "s"},
                       {"pid", kStreams},
                       {"tid", static_cast<int>(wait.on) + 1},
                       {"name", "arrives"},
                       {"cat", "flow"},
                       {"id", id},
                       {"ts", micro((begin + end) / 2)}});
    events_.push_back({{"ph", "f"},
                       {"pid", kStreams},
                       {"tid", 1},
                       {"name", "arrives"},
                       {"cat", "flow"},
                       {"id", id},
                       {"ts", micro(wait.end)}});
  }

  std::pair<double, double> times_of(Resource r, WorkLabel label) {
    if (moves_.empty()) {
      for (size_t i = 1; i < kResources; ++i) {
        for (const TimelineEvent& e : timeline_.work(static_cast<Resource>(i))) {
          moves_[{i, e.label}] = {e.begin, e.end};
        }
      }
    }
    const auto found = moves_.find({static_cast<size_t>(r), label});
    return found == moves_.end() ? std::pair<double, double>{} : found->second;
  }

  void add_usage(const Residency& residency) {
    for (const TimelineUsage& u : timeline_.usage()) {
      const auto begin = residency.op_begin(u.step, u.op);
      if (!begin) continue;
      for (size_t t = 0; t < kTiers; ++t) {
        Json bytes = Json::object();
        uint64_t sum = 0;
        for (size_t c = 0; c < kCategories; ++c) {
          if (u.bytes[t][c] != 0) bytes[name_of(static_cast<Category>(c))] = u.bytes[t][c];
          sum += u.bytes[t][c];
        }
        if (sum == 0) continue;
        events_.push_back({{"ph", "C"},
                           {"pid", kStreams},
                           {"tid", 0},
                           {"name", std::string(name_of(static_cast<Tier>(t))) + " bytes"},
                           {"ts", micro(*begin)},
                           {"args", std::move(bytes)}});
      }
    }
  }

  void add_residency(const Residency& residency) {
    ObjId named{UINT32_MAX, Plane::weight};
    for (const Residency::Stay& s : residency.stays()) {
      const auto tid =
          static_cast<int>(s.object.chunk * kPlanes + static_cast<size_t>(s.object.plane)) + 1;
      const std::string title = fmt::format("{} {}", name_of(s.object.plane), s.object.chunk);
      if (!(s.object == named)) add_meta(kResidency, tid, "thread_name", title, tid);
      named = s.object;
      add_slice(kResidency, tid, title, "stay", s.begin, s.end,
                {{"chunk", s.object.chunk},
                 {"plane", name_of(s.object.plane)},
                 {"tensors", tensors(s.object.chunk)}});
    }
  }

  const Timeline& timeline_;
  const TimelineNames& names_;
  double zero_ = 0;
  int arrows_ = 0;
  std::map<std::pair<size_t, WorkLabel>, std::pair<double, double>> moves_;
  Json events_ = Json::array();
};

}  // namespace

Json chrome_trace(const Timeline& timeline, const TimelineNames& names) {
  return Writer(timeline, names).write();
}

void write_chrome_trace(const std::string& path, const Timeline& timeline,
                        const TimelineNames& names) {
  // Names of tensors are whatever a model or a trace says.
  replace_text(
      watched_files(), path,
      chrome_trace(timeline, names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

}  // namespace strata
