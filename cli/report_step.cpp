#include "cli/report_step.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "runtime/backend.hpp"
#include "runtime/errors.hpp"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

/// In the order of their numbers.
constexpr std::string_view kKinds[] = {"op", "move", "update", "norm", "wait"};

/// The part of a trace that is shown, in microseconds.
struct Window {
  uint64_t step = 0;
  double begin = 0, end = 0;
};

bool is_slice(const Json& e, std::string_view category) {
  return e.at("ph") == "X" && e.at("cat") == category;
}

Window window_of(const Json& events) {
  std::map<uint64_t, std::pair<double, double>> steps;  // begin and end of ops
  for (const Json& e : events) {
    if (!is_slice(e, "op") && !is_slice(e, "norm")) continue;
    const double begin = e.at("ts"), end = begin + e.at("dur").get<double>();
    const auto [at, fresh] = steps.try_emplace(e.at("args").at("step"), begin, end);
    if (fresh) continue;
    at->second.first = std::min(at->second.first, begin);
    at->second.second = std::max(at->second.second, end);
  }
  if (steps.empty()) throw ConfigError("no step was recorded");
  // One that another follows, where there is one.
  const auto chosen = std::next(steps.begin(), static_cast<std::ptrdiff_t>(steps.size() - 1) / 2);
  const auto next = std::next(chosen);
  Window w{chosen->first, chosen->second.first, chosen->second.second};
  if (next != steps.end() && next->first == chosen->first + 1) w.end = next->second.first;
  return w;
}

class Compactor {
 public:
  Compactor(const Json& trace, Window window) : trace_(trace), window_(window) {}

  Json take() {
    for (const Json& e : trace_.at("traceEvents")) {
      const std::string kind = e.at("ph");
      if (kind == "C") add_usage(e);
      if (kind == "X") add_slice(e);
    }
    Json tracks = Json::array();
    for (size_t r = 0; r < kResources; ++r) tracks.push_back(name_of(static_cast<Resource>(r)));
    return {{"source", trace_.at("otherData").at("source")},
            {"step", window_.step},
            {"seconds", (window_.end - window_.begin) * 1e-6},
            {"tracks", tracks},
            {"names", names_},
            {"slices", slices_},
            {"stays", stays_},
            {"chunks", chunks_},
            {"usage", usage_}};
  }

 private:
  size_t name(const std::string& text) {
    const auto [at, fresh] = index_.try_emplace(text, index_.size());
    if (fresh) names_.push_back(text);
    return at->second;
  }

  static std::string detail(const Json& args, std::string_view category) {
    const auto text = [&](const char* key) { return args.at(key).get<std::string>(); };
    if (category == "op") {
      return text("call") + ", block " + args.at("block").dump() + ", micro-batch " +
             args.at("micro_batch").dump();
    }
    if (category == "move") return text("from") + " to " + text("to");
    if (category != "wait") return {};
    std::string out = args.contains("for") ? "for " + text("for") : "others have them";
    if (args.contains("before")) out += ", before " + text("before");
    return out;
  }

  void add_slice(const Json& e) {
    const double from = e.at("ts"), to = from + e.at("dur").get<double>();
    const double begin = std::max(from, window_.begin), end = std::min(to, window_.end);
    if (end <= begin) return;
    const Json& args = e.at("args");
    const std::string category = e.at("cat");
    const double seconds = (end - begin) * 1e-6, at = (begin - window_.begin) * 1e-6;
    if (args.contains("tensors")) chunks_[args.at("chunk").dump()] = args.at("tensors");
    if (category == "stay") {
      stays_.push_back({args.at("chunk"), name(args.at("plane")), at, seconds});
      return;
    }
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds), category);
    const size_t track = (e.at("tid").get<size_t>() - 1) % 10;
    if (kind == std::end(kKinds) || track >= kResources) return;
    // What is cut at the window's edge moved as much less.
    const double share = (end - begin) / (to - from);
    const double bytes = args.contains("bytes") ? args.at("bytes").get<double>() * share : 0;
    slices_.push_back({track, kind - std::begin(kKinds), name(e.at("name")), at, seconds,
                       args.contains("chunk") ? args.at("chunk") : Json(-1),
                       name(detail(args, category)), static_cast<uint64_t>(bytes)});
  }

  void add_usage(const Json& e) {
    const double at = e.at("ts");
    if (at < window_.begin || at >= window_.end) return;
    const std::string counter = e.at("name");
    Json& u = usage_[counter.substr(0, counter.find(' '))];
    if (u.is_null()) u = {{"times", Json::array()}, {"bytes", Json::object()}};
    for (const auto& [category, bytes] : e.at("args").items()) {
      Json& list = u["bytes"][category];
      if (list.is_null()) list = Json::array();
      while (list.size() < u["times"].size()) list.push_back(0);
      list.push_back(bytes);
    }
    u["times"].push_back((at - window_.begin) * 1e-6);
    for (auto& [category, list] : u["bytes"].items()) {
      if (list.size() < u["times"].size()) list.push_back(0);
    }
  }

  const Json& trace_;
  Window window_;
  std::map<std::string, size_t> index_;
  Json names_ = Json::array(), slices_ = Json::array(), stays_ = Json::array(),
       chunks_ = Json::object(), usage_ = Json::object();
};

}  // namespace

Json report_step(const Json& trace) {
  return Compactor(trace, window_of(trace.at("traceEvents"))).take();
}

}  // namespace strata
