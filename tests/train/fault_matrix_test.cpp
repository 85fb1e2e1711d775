// Every fault in every place where bytes go to a file or come from one (docs/faults.md): a run goes
// on exactly, or ends with one message that names file, offset and owner, and the checkpoint before
// is whole.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "runtime/errors.hpp"
#include "runtime/files/watched_files.hpp"
#include "tests/folder.hpp"
#include "tests/offload/nvme/faulty_sink.hpp"
#include "tests/runtime/files/faulty_files.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/data_text.hpp"
#include "train/trainer.hpp"

namespace strata {
namespace {

using testing::FaultKind;

enum class Where { tier_read, tier_write, checkpoint_write, checkpoint_load, data_read };
constexpr const char* kPlaces[] = {"TierRead", "TierWrite", "CheckpointWrite", "CheckpointLoad",
                                   "DataRead"};
constexpr std::pair<FaultKind, const char*> kKinds[] = {
    {FaultKind::enospc, "Enospc"}, {FaultKind::eio, "Eio"},   {FaultKind::short_transfer, "Short"},
    {FaultKind::eagain, "Eagain"}, {FaultKind::flip, "Flip"}, {FaultKind::hang, "Hang"}};

struct Cell {
  Where where;
  FaultKind kind;
  /// Put between the queue and its sink; a bit that flips on its way to the drive is put into the
  /// call of a thread instead.
  bool in_sink() const {
    return in_tier() && !(where == Where::tier_write && kind == FaultKind::flip);
  }
  bool in_tier() const { return where == Where::tier_read || where == Where::tier_write; }
  bool goes_on() const {
    return kind == FaultKind::short_transfer || kind == FaultKind::eagain ||
           // Nobody reads what was written wrong before it is wanted: the checkpoint before is.
           (kind == FaultKind::flip && where == Where::checkpoint_write);
  }
};

struct Told : IoError {
  using IoError::IoError;
};

class FaultMatrix : public ::testing::TestWithParam<Cell> {
 protected:
  static constexpr uint64_t kSteps = 4;
  static constexpr int kTierWrites = 90;  // past the first writing, and the loading

  FaultMatrix() {
    std::string text;
    for (int i = 0; text.size() < 4000; ++i) text += "line " + std::to_string(i * i) + " of text\n";
    text_ = {folder_.write("text.txt", text)};
    std::filesystem::create_directories(folder_.path("drive"));
    SessionConfig c;
    c.model = "gpt2:L3,D48,H3,V256,T16";
    c.shape = {2, 16, 1};
    c.evaluates = false;
    workload_.emplace(c);
    budgets_.bytes = {size_t{1} << 40, 0, size_t{1} << 40};
    budgets_.bytes = workload_->plan(budgets_).minimum;
  }

  /// Steps up to `steps`, from the checkpoint `from` when it is not empty, saving after each.
  uint64_t run(uint64_t steps, const std::string& from, testing::Fault* tier_fault,
               double timeout = 60) {
    RunOptions options;
    options.nvme = {{folder_.path("drive")}, "auto", true, timeout};
    if (tier_fault != nullptr) {
      options.nvme.wrap = testing::FaultySink::wrap;
      options.nvme.wrap_context = tier_fault;
    }
    if (GetParam().in_tier() && !GetParam().in_sink()) {
      options.nvme.engine = "threads";
      options.nvme.files = &faulty_;
    }
    options.initialize = from.empty();
    WatchedFiles files(faulty_, 0.05, [this](const std::string& m) {
      told_ = m;
      has_told_ = true;
    });
    TextData data(text_, 16, 1, 256, files);
    Session session(*workload_, workload_->plan(budgets_), budgets_, options);
    CheckpointFolder checkpoints(files, folder_.path("checkpoints"));
    TrainerConfig config;
    config.schedule = {1e-3, 1e-4, 1, kSteps};
    if (!from.empty()) {
      const Manifest m = open_checkpoint(files, from);
      config.first_step = m.step;
      load_checkpoint(files, from, m, *workload_, session);
    }
    config.save_every = 1;
    config.save = [&](uint64_t done) {
      Manifest m;
      m.step = done;
      save_checkpoint(checkpoints, m, *workload_, session);
    };
    config.stop = [&, done = config.first_step]() mutable { return ++done == steps; };
    Trainer(*workload_, session, data, config).run([](const StepMetrics&) {});
    return session.state_hash();
  }

  /// The file fault of a cell that is not in the tier.
  FileFault file_fault() {
    const Cell cell = GetParam();
    FileFault f;
    const bool write = cell.where == Where::checkpoint_write || cell.where == Where::tier_write;
    f.call = write ? FileCall::write : FileCall::read;
    f.path = cell.where == Where::data_read ? "text.txt"
             : cell.in_tier()               ? "drive"
                                            : ".safetensors";
    // Past headers, past the start's look at the whole text, past first writing and loading.
    f.nth = cell.where == Where::data_read ? 3 : cell.in_tier() ? kTierWrites : 7;
    switch (cell.kind) {
      case FaultKind::enospc: f.error = ENOSPC; break;
      case FaultKind::eio: f.error = EIO; break;
      case FaultKind::eagain: f.error = EAGAIN; break;
      case FaultKind::short_transfer: f.kind = FileFault::Kind::cut; break;
      case FaultKind::flip: f.kind = FileFault::Kind::flip_bit; break;
      default:
        f.kind = FileFault::Kind::call;
        f.action = [this] {
          while (!has_told_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          throw Told(told_);  // the command ends the process instead
        };
    }
    return f;
  }

  Folder folder_;
  FaultyFiles faulty_;
  std::vector<std::string> text_;
  std::optional<Workload> workload_;
  Budgets budgets_;
  std::string told_;
  std::atomic<bool> has_told_{false};
};

TEST_P(FaultMatrix, EndsExactlyOrWithOneMessageAndTheCheckpointBefore) {
  const Cell cell = GetParam();
  const std::string first = folder_.path("checkpoints/step-00000001");
  run(1, "", nullptr);
  const uint64_t expected = run(kSteps, first, nullptr);
  CheckpointFolder checkpoints(real_files(), folder_.path("checkpoints"));
  for (const auto& e : checkpoints.list()) {
    if (e.step != 1) real_files().remove(e.path);
  }

  testing::Fault tier;
  tier.kind = cell.kind;
  tier.on_write = cell.where == Where::tier_write;
  tier.nth = tier.on_write ? kTierWrites : 40;
  if (!cell.in_sink()) faulty_.faults = {file_fault()};
  std::string message;
  std::thread release;
  if (cell.in_tier() && cell.kind == FaultKind::hang) {
    // After the store gave it up, and before it stops waiting for its memory to be free again.
    release = std::thread([&] {
      while (tier.seen < tier.nth) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1600));
      tier.released = true;
    });
  }
  uint64_t hash = 0;
  try {
    hash =
        run(kSteps, first, cell.in_sink() ? &tier : nullptr, cell.kind == FaultKind::hang ? 1 : 60);
  } catch (const Error& e) {
    message = e.what();
  }
  if (release.joinable()) release.join();
  if (cell.in_sink()) {
    EXPECT_GE(tier.seen, tier.nth) << "the fault never happened";
  } else {
    EXPECT_EQ(faulty_.fired(), 1u);
  }
  faulty_.faults.clear();

  const bool goes_on = cell.goes_on();
  if (goes_on) {
    EXPECT_EQ(message, "");
    EXPECT_EQ(hash, expected);
  } else {
    const std::string file = cell.in_tier() ? "the unnamed file in " + folder_.path("drive")
                             : cell.where == Where::data_read ? text_[0]
                                                              : ".safetensors";
    const std::string owner = cell.in_tier() ? " of chunk " : "";
    for (const std::string& part : {file, std::string(" offset "), owner}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << "one line: " << message;
  }
  // The checkpoint before goes on exactly, whatever happened.
  for (const auto& e : checkpoints.list()) {
    if (e.step != 1) real_files().remove(e.path);
  }
  EXPECT_EQ(run(kSteps, first, nullptr), expected);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("drive")));
}

std::vector<Cell> cells() {
  std::vector<Cell> out;
  for (int w = 0; w < 5; ++w) {
    for (const auto& [kind, name] : kKinds) out.push_back({static_cast<Where>(w), kind});
  }
  return out;
}

std::string cell_name(const ::testing::TestParamInfo<Cell>& i) {
  std::string name = kPlaces[static_cast<size_t>(i.param.where)];
  for (const auto& [kind, text] : kKinds) {
    if (kind == i.param.kind) name += text;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FaultMatrix, ::testing::ValuesIn(cells()), cell_name);

}  // namespace
}  // namespace strata
