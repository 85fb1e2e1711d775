#include "train/verify.hpp"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "runtime/errors.hpp"
#include "runtime/files/io_error.hpp"
#include "runtime/hash.hpp"
#include "train/checkpoint/checkpoint.hpp"

namespace strata {
namespace {

/// What a run leaves behind that must not depend on placement.
struct Record {
  std::vector<double> losses, norms, evaluations;
  std::vector<std::vector<std::byte>> state;  // by tensor and plane
  EngineStats stats;
  std::array<size_t, kTiers> peaks{}, predicted{};
  uint64_t plan_hash = 0;
};

Budgets unlimited() {
  Budgets b;
  b.bytes[static_cast<size_t>(Tier::device)] = size_t{1} << 46;
  return b;
}

/// A folder for one checkpoint, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "strata-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw io_error("create", path_, errno);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Runner {
 public:
  Runner(const VerifyCase& c, const SessionConfig& config, TokenSource& data)
      : case_(c), workload_(config), data_(data) {}

  const Workload& workload() const { return workload_; }

  Record run(const Budgets& budgets, const RunOptions& options) {
    Record out;
    const PlanResult plan = workload_.plan(budgets);
    Session session(workload_, plan, budgets, options);
    steps(session, 0, case_.schedule.steps, out);
    note_plan(session, plan, out);
    read_state(session, out);
    return out;
  }

  /// The first steps of a run, saved.
  Record begin(const Budgets& budgets, const RunOptions& options, CheckpointFolder& folder) {
    Record out;
    const PlanResult plan = workload_.plan(budgets);
    Session session(workload_, plan, budgets, options);
    steps(session, 0, case_.checkpoint_after, out);
    note_plan(session, plan, out);  // saving may stage more than a step does
    Manifest m;
    m.step = case_.checkpoint_after;
    save_checkpoint(folder, m, workload_, session);
    return out;
  }

  /// The rest of it, with the least the workload needs on device and host.
  void go_on(RunOptions options, CheckpointFolder& folder, Record& out) {
    Budgets budgets = unlimited();
    budgets.bytes[static_cast<size_t>(Tier::host)] = size_t{1} << 46;
    budgets.bytes = workload_.plan(budgets).minimum;
    options.initialize = false;
    Session session(workload_, workload_.plan(budgets), budgets, options);
    const std::string path = folder.list().back().path;
    load_checkpoint(folder.files(), path, open_checkpoint(folder.files(), path), workload_,
                    session);
    steps(session, case_.checkpoint_after, case_.schedule.steps, out);
    read_state(session, out);
  }

 private:
  void steps(Session& session, uint64_t from, uint64_t to, Record& out) {
    const BatchShape& shape = workload_.config().shape;
    const uint64_t samples = uint64_t{shape.batch} * shape.micro_batches;
    const uint64_t tokens = samples * shape.seq;
    for (auto* b : {&slots_[0], &slots_[1], &evaluation_}) {
      b->first.resize(tokens);
      b->second.resize(tokens);
    }
    const auto keep = [&](const StepResult& r) {
      out.losses.push_back(r.loss);
      out.norms.push_back(r.grad_norm);
      if (!r.applied || r.nonfinite_weight != UINT32_MAX) {
        const uint32_t p = r.applied ? r.nonfinite_weight : r.nonfinite_grad;
        throw NonFinite(std::string("the run to verify is not finite: ") +
                        (p == UINT32_MAX ? "its loss" : workload_.layout().params()[p].name) +
                        " at step " + std::to_string(out.losses.size()) + "; try a lower --lr");
      }
    };
    for (uint64_t s = from; s < to; ++s) {
      auto& b = slots_[s % 2];
      data_.train_batch(s * samples, static_cast<uint32_t>(samples), b.first.data(),
                        b.second.data());
      session.step({b.first.data(), b.second.data()},
                   {s, case_.schedule.at(s), static_cast<double>(tokens)});
      if (case_.evaluate && s % 2 == 1) {
        data_.validation_batch(0, shape.batch, evaluation_.first.data(), evaluation_.second.data());
        out.evaluations.push_back(
            session.evaluate({evaluation_.first.data(), evaluation_.second.data()}));
      }
      if (s > from) keep(session.result(1));
    }
    if (case_.checkpoint_after == to) return keep(session.result(0));  // updates stay pending
    session.flush();
    keep(session.result(0));
  }

  static void note_plan(Session& session, const PlanResult& plan, Record& out) {
    out.stats = session.engine().stats();
    for (size_t t = 0; t < kTiers; ++t) {
      out.peaks[t] = session.ledger().peak(static_cast<Tier>(t));
      out.predicted[t] = plan.tiers[t].peak;
    }
    out.plan_hash = plan.plan.hash();
  }

  void read_state(Session& session, Record& out) {
    const ChunkLayout& layout = workload_.layout();
    for (ParamId p = 0; p < layout.params().size(); ++p) {
      if (layout.storage_of(p) != p) continue;
      for (const Plane plane : state_planes(workload_, p)) {
        out.state.push_back(session.read(p, plane));
      }
    }
  }

  const VerifyCase& case_;
  Workload workload_;
  TokenSource& data_;
  std::array<std::pair<std::vector<int32_t>, std::vector<int32_t>>, 2> slots_;
  std::pair<std::vector<int32_t>, std::vector<int32_t>> evaluation_;
};

std::optional<Difference> compare_series(const char* what, const std::vector<double>& a,
                                         const std::vector<double>& b) {
  for (size_t s = 0; s < a.size(); ++s) {
    if (std::bit_cast<uint64_t>(a[s]) == std::bit_cast<uint64_t>(b[s])) continue;
    char text[96];
    std::snprintf(text, sizeof text, "%.17g resident, %.17g under budgets", a[s], b[s]);
    return Difference{s + 1, what, 0, text};
  }
  return std::nullopt;
}

std::optional<Difference> compare_state(const Workload& w, uint64_t steps, const Record& a,
                                        const Record& b) {
  const ChunkLayout& layout = w.layout();
  size_t i = 0;
  for (ParamId p = 0; p < layout.params().size(); ++p) {
    if (layout.storage_of(p) != p) continue;
    for (const Plane plane : state_planes(w, p)) {
      const auto &x = a.state[i], &y = b.state[i];
      ++i;
      if (x == y) continue;
      const size_t size = w.shape().element_bytes(plane);
      size_t e = 0;
      while (std::memcmp(x.data() + e * size, y.data() + e * size, size) == 0) ++e;
      uint32_t bits[2] = {0, 0};
      std::memcpy(&bits[0], x.data() + e * size, size);
      std::memcpy(&bits[1], y.data() + e * size, size);
      char text[96];
      std::snprintf(text, sizeof text, "bits 0x%0*x resident, 0x%0*x under budgets",
                    static_cast<int>(2 * size), bits[0], static_cast<int>(2 * size), bits[1]);
      return Difference{steps, layout.params()[p].name + " (" + name_of(plane) + ")", e, text};
    }
  }
  return std::nullopt;
}

}  // namespace

VerifyOutcome verify_case(const VerifyCase& c, TokenSource& data) {
  SessionConfig resident = c.session;
  resident.policy = "resident";
  resident.threads = c.reference_threads;
  // The reference keeps every value and finds its own chunk size.
  resident.recompute = 0;
  resident.order = MicroBatchOrder::horizontal;
  resident.chunk_bytes = 0;
  Runner under(c, c.session, data);
  RunOptions options;
  options.delay_seed = c.delay_seed;
  options.mutations = c.mutations;
  options.nvme = c.nvme;
  const Record b = [&] {
    if (c.checkpoint_after == 0) return under.run(c.budgets, options);
    const TemporaryFolder folder;
    CheckpointFolder checkpoints(real_files(), folder.path());
    Record r = under.begin(c.budgets, options, checkpoints);
    Runner(c, c.resumed, data).go_on(options, checkpoints, r);
    return r;
  }();
  Runner reference(c, resident, data);
  const Record a = reference.run(unlimited(), {});

  VerifyOutcome out;
  out.difference = compare_series("loss", a.losses, b.losses);
  if (!out.difference) out.difference = compare_series("gradient norm", a.norms, b.norms);
  if (!out.difference) {
    out.difference = compare_series("evaluation loss", a.evaluations, b.evaluations);
  }
  if (!out.difference) {
    out.difference = compare_state(under.workload(), c.schedule.steps, a, b);
  }
  out.stats = b.stats;
  for (const double n : a.norms) out.clipped |= c.session.clip > 0 && n > c.session.clip;
  out.peaks = b.peaks;
  out.predicted_peaks = b.predicted;
  out.numerics_key = under.workload().numerics_key(data.hash(), c.schedule);
  out.plan_hash = hash_text(b.plan_hash);
  return out;
}

}  // namespace strata
