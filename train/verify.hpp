// The proof that placement does not change numbers: the same run resident and under budgets,
// compared bit for bit.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/data.hpp"
#include "train/schedule.hpp"
#include "train/session.hpp"

namespace strata {

struct VerifyCase {
  SessionConfig session;  // its `policy` is used under budgets
  Budgets budgets;
  LrSchedule schedule{1e-3, 1e-4, 1, 4};
  uint64_t delay_seed = 0;
  /// Evaluate one validation batch after every second step, while updates are pending. Between the
  /// others steps follow each other, which takes the most memory.
  bool evaluate = false;
  /// Threads of the resident run.
  uint32_t reference_threads = 1;
  Mutations mutations;
  NvmePlace nvme;
  /// Not 0: after so many steps the run is saved to a temporary folder, ended, and gone on with as
  /// `resumed` at the least of its budgets.
  uint64_t checkpoint_after = 0;
  SessionConfig resumed;
};

/// Where two runs part. `element` is of the tensor, or 0 for a loss.
struct Difference {
  uint64_t step;
  std::string tensor;
  uint64_t element;
  std::string detail;
};

struct VerifyOutcome {
  std::optional<Difference> difference;
  EngineStats stats;  // of the run under budgets
  bool clipped = false;
  std::array<size_t, kTiers> peaks{}, predicted_peaks{};
  std::string numerics_key;
  std::string plan_hash;
};

/// Throws DoesNotFit when the budgets do not hold the run.
VerifyOutcome verify_case(const VerifyCase&, TokenSource&);

/// Random tokens below `vocabulary` as a token source.
std::unique_ptr<TokenSource> random_tokens(uint32_t vocabulary, uint32_t seq, uint64_t seed);

/// How often each variant was tried.
using Coverage = std::map<std::string, uint64_t>;

struct VerifyReport {
  uint64_t runs = 0, identical = 0;
  std::optional<Difference> first_difference;
  std::string first_difference_run;  // its configuration
  std::string idle_run;              // the first that moved nothing
  Coverage coverage;
};

/// Case `index` of the random cases of `seed`: small models of three shapes; budgets log-uniform
/// between the planned minimum and the resident peak, every second one at the minimum.
/// With directories, most runs keep a part or all of their state on NVMe, on one or more of them.
VerifyCase random_case(uint64_t seed, uint64_t index,
                       const std::vector<std::string>& nvme_directories = {});
std::string describe(const VerifyCase&);
/// Adds what the case and its outcome cover.
void count_coverage(Coverage&, const VerifyCase&, const VerifyOutcome&);

}  // namespace strata
