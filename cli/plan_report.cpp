#include "cli/plan_report.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/sizes.hpp"
#include "runtime/errors.hpp"
#include "runtime/hash.hpp"
#include "runtime/memory.hpp"

namespace strata {
namespace {

/// Splits of a batch beyond this are not worth planning.
constexpr uint64_t kMostMicroBatches = 1024;

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  return text;
}

/// Plans a changed configuration under the same budgets; adds it when it fits.
void try_change(std::vector<Fix>& fixes, const SessionConfig& config, const Budgets& budgets,
                const std::string& flag, const std::string& effect) {
  try {
    const Workload workload(config);
    const PlanResult plan = workload.plan(budgets);
    if (plan.fits) fixes.push_back({flag, effect, plan.minimum, plan.prediction.step_seconds});
  } catch (const ConfigError&) {
    // not a legal variant of this model
  }
}

}  // namespace

std::vector<Fix> find_fixes(const Workload& workload, const PlanResult& plan,
                            const Budgets& budgets) {
  std::vector<Fix> fixes;
  const SessionConfig& c = workload.config();
  const auto change = [&](const std::string& flag, const std::string& effect, auto edit) {
    SessionConfig changed = c;
    edit(changed);
    try_change(fixes, changed, budgets, flag, effect);
  };
  const bool streams = workload.policy().streams();
  const bool recomputes = c.recompute == kAllBlocks;
  const auto stream = [](SessionConfig& s) { s.policy = "auto"; };
  const auto recompute = [](SessionConfig& s) { s.recompute = kAllBlocks; };
  if (!streams) change("--policy auto", "streams whatever does not fit", stream);
  if (!recomputes) change("--recompute block", "about a fifth more compute", recompute);
  if (!streams && !recomputes) {
    change("--recompute block --policy auto", "about a fifth more compute, streams the rest",
           [&](SessionConfig& s) {
             stream(s);
             recompute(s);
           });
  }
  // The largest part of a batch that fits; first alone, then with all of the above.
  const auto split = [&](const std::string& more, const std::string& effect, auto edit) {
    const size_t before = fixes.size();
    for (uint32_t batch = c.shape.batch / 2; batch != 0 && fixes.size() == before; batch /= 2) {
      if (c.shape.batch % batch != 0) break;
      const uint64_t accum = uint64_t{c.shape.micro_batches} * (c.shape.batch / batch);
      if (accum > kMostMicroBatches) break;
      change("--batch " + std::to_string(batch) + " --accum " + std::to_string(accum) + more,
             "the same tokens a step in smaller micro-batches" + effect, [&](SessionConfig& s) {
               s.shape.batch = batch;
               s.shape.micro_batches = static_cast<uint32_t>(accum);
               edit(s);
             });
    }
  };
  split("", "", [](SessionConfig&) {});
  if (fixes.empty() && !(streams && recomputes)) {
    split(std::string(recomputes ? "" : " --recompute block") + (streams ? "" : " --policy auto"),
          ", all savings together", [&](SessionConfig& s) {
            stream(s);
            recompute(s);
          });
  }
  std::stable_sort(fixes.begin(), fixes.end(),
                   [](const Fix& a, const Fix& b) { return a.step_seconds < b.step_seconds; });
  // The budgets these settings need, planned again to be sure, where this machine has as much.
  Budgets enough = budgets;
  std::string flag;
  constexpr auto kDevice = static_cast<size_t>(Tier::device),
                 kHost = static_cast<size_t>(Tier::host);
  for (const Shortfall& s : plan.shortfall) {
    const auto t = static_cast<size_t>(s.tier);
    enough.bytes[t] = plan.minimum[t];
    // With a host tier, what the process itself takes is charged there.
    if (t == kHost && budgets.bytes[t] == 0) {
      enough.bytes[t] += budgets.external[kDevice];
      std::swap(enough.external[kDevice], enough.external[kHost]);
    }
    flag += std::string(flag.empty() ? "" : " ") + "--" + name_of(s.tier) + "-mem " +
            std::to_string(enough.bytes[t]);
  }
  if (enough.bytes[kDevice] + enough.bytes[kHost] > available_host_memory()) return fixes;
  try_change(fixes, c, enough, flag, "the smallest budgets for these settings");
  return fixes;
}

std::string plan_table(const Workload& w, const PlanResult& r) {
  const SessionConfig& c = w.config();
  const ChunkLayout& layout = w.layout();
  uint64_t parameters = 0;
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    if (layout.storage_of(p) == p) parameters += layout.params()[p].elems();
  }
  char line[256];
  std::snprintf(
      line, sizeof line,
      "Model     %s: %.1f M parameters, %s, batch %u x %u tokens x %u, %u thread%s, policy %s\n"
      "Chunks    %u of %s, padding %.1f %%; state %s\n\n",
      c.model.c_str(), static_cast<double>(parameters) * 1e-6, name_of(c.dtype), c.shape.batch,
      c.shape.seq, c.shape.micro_batches, c.threads, c.threads == 1 ? "" : "s",
      r.plan.policy.c_str(), layout.chunks(), format_bytes(w.shape().unit_bytes()).c_str(),
      100 * layout.padding(), format_bytes(w.state_bytes()).c_str());
  std::string text = line;
  std::vector<std::vector<std::string>> rows = {{"", "device", "host", "nvme"}};
  for (size_t k = 0; k < kCategories; ++k) {
    std::vector<std::string> row = {name_of(static_cast<Category>(k))};
    size_t sum = 0;
    for (const TierReport& t : r.tiers) {
      row.push_back(t.by_category[k] == 0 ? "-" : format_bytes(t.by_category[k]));
      sum += t.by_category[k];
    }
    if (sum != 0) rows.push_back(row);
  }
  const auto add = [&](const char* name, auto get) {
    std::vector<std::string> row = {name};
    for (size_t t = 0; t < kTiers; ++t) row.push_back(format_bytes(get(t)));
    rows.push_back(row);
  };
  add("peak", [&](size_t t) { return r.tiers[t].peak; });
  add("budget", [&](size_t t) { return r.tiers[t].budget; });
  add("minimum", [&](size_t t) { return r.minimum[t]; });
  text += aligned_table(rows) + "\n";
  std::snprintf(line, sizeof line,
                "\n%s. A step moves %s to the device and %s back, with %llu demand misses; plan %s",
                r.fits ? "FITS" : "DOES NOT FIT", format_bytes(r.prediction.h2d_bytes).c_str(),
                format_bytes(r.prediction.d2h_bytes).c_str(),
                static_cast<unsigned long long>(r.prediction.demand_misses),
                hash_text(r.plan.hash()).c_str());
  text += line;
  if (r.plan.nvme_units != 0) {
    text += "\nFrom NVMe it reads " + format_bytes(r.prediction.nvme_read_bytes) +
            ", to NVMe it writes " + format_bytes(r.prediction.nvme_write_bytes) + ".";
  }
  if (const uint32_t n = r.plan.speculating_chunks(); n != 0) {
    text += "\nOf " + std::to_string(layout.chunks()) + " chunks " + std::to_string(n) +
            " are updated before the norm to clip by is known, and again where it clips.";
  }
  if (!r.remark.empty()) text += "\nNote: " + r.remark + ".";
  return text;
}

std::string fixes_text(const PlanResult& r, const std::vector<Fix>& fixes) {
  std::string text;
  for (const Shortfall& s : r.shortfall) {
    text += std::string(name_of(s.tier)) + " memory is short by " + format_bytes(s.bytes) + " (" +
            std::to_string(s.bytes) + " bytes) for " + s.what + "\n";
  }
  text += fixes.empty() ? "No change of settings was found that fits on this machine."
                        : "These were planned and fit (steps simulated):";
  for (const Fix& f : fixes) {
    text += "\n  " + f.flag + "  (" + f.effect + "; step " + milliseconds(f.step_seconds) + ")";
  }
  return text;
}

std::string plan_json(const PlanResult& r, const std::vector<Fix>& fixes) {
  nlohmann::ordered_json j;
  j["fits"] = r.fits;
  for (size_t t = 0; t < kTiers; ++t) {
    auto& tier = j["tiers"][name_of(static_cast<Tier>(t))];
    tier["budget"] = r.tiers[t].budget;
    tier["peak"] = r.tiers[t].peak;
    tier["minimum"] = r.minimum[t];
    for (size_t k = 0; k < kCategories; ++k) {
      tier["by_category"][name_of(static_cast<Category>(k))] = r.tiers[t].by_category[k];
    }
  }
  j["speculating_chunks"] = r.plan.speculating_chunks();
  j["shortfall"] = nlohmann::ordered_json::array();
  for (const Shortfall& s : r.shortfall) {
    j["shortfall"].push_back({{"tier", name_of(s.tier)}, {"bytes", s.bytes}, {"for", s.what}});
  }
  j["fixes"] = nlohmann::ordered_json::array();
  for (const Fix& f : fixes) {
    j["fixes"].push_back(
        {{"flags", f.flag}, {"effect", f.effect}, {"step_seconds", f.step_seconds}});
  }
  j["h2d_bytes_per_step"] = r.prediction.h2d_bytes;
  j["d2h_bytes_per_step"] = r.prediction.d2h_bytes;
  j["nvme_read_bytes_per_step"] = r.prediction.nvme_read_bytes;
  j["nvme_write_bytes_per_step"] = r.prediction.nvme_write_bytes;
  j["step_seconds"] = r.prediction.step_seconds;
  j["plan"] = hash_text(r.plan.hash());
  return j.dump();
}

}  // namespace strata
