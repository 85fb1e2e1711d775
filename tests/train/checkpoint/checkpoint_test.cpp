// Sessions to files and back: the same bits, or a message.
#include "train/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "runtime/errors.hpp"
#include "tests/folder.hpp"
#include "tests/runtime/files/faulty_files.hpp"
#include "train/verify.hpp"

namespace strata {
namespace {

constexpr uint32_t kSeq = 16;

SessionConfig small(DType dtype = DType::f32) {
  SessionConfig c;
  c.model = "gpt2:L3,D48,H3,V96,T16";
  c.shape = {2, kSeq, 1};
  c.clip = 0.5;
  c.dtype = dtype;
  return c;
}

/// A workload and where it runs: everything wide, or at the least of its budgets.
struct Place {
  Place(const SessionConfig& config, bool least, NvmePlace drives = {})
      : workload(config), nvme(std::move(drives)) {
    constexpr size_t kWide = size_t{1} << 40;
    budgets.bytes = {kWide, nvme.directories.empty() ? kWide : 0,
                     nvme.directories.empty() ? 0 : kWide};
    if (!least) return;
    budgets.bytes = workload.plan(budgets).minimum;
  }

  std::unique_ptr<Session> session(bool initialize) const {
    RunOptions o;
    o.initialize = initialize;
    o.nvme = nvme;
    return std::make_unique<Session>(workload, workload.plan(budgets), budgets, o);
  }

  Workload workload;
  NvmePlace nvme;
  Budgets budgets;
};

/// Trains steps [from, to) and gives the last loss.
double train(Session& session, uint64_t from, uint64_t to) {
  const auto data = random_tokens(96, kSeq, 5);
  std::vector<int32_t> tokens[2], targets[2];
  double loss = 0;
  for (uint64_t s = from; s < to; ++s) {
    auto &t = tokens[s % 2], &g = targets[s % 2];
    t.resize(2 * kSeq);
    g.resize(2 * kSeq);
    data->train_batch(s * 2, 2, t.data(), g.data());
    session.step({t.data(), g.data()}, {s, 1e-3, 2.0 * kSeq});
    loss = session.result(0).loss;
  }
  session.flush();
  session.backend().drain();
  return loss;
}

Manifest at(uint64_t step) {
  Manifest m;
  m.step = step;
  m.numerics_key = "key";
  return m;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class Checkpoint : public ::testing::TestWithParam<DType> {
 protected:
  CheckpointFolder::Entry save(const Place& from, Session& s, uint64_t step) {
    return save_checkpoint(checkpoints_, at(step), from.workload, s);
  }
  void load(const Place& to, Session& s, const std::string& path) {
    load_checkpoint(files_, path, open_checkpoint(files_, path), to.workload, s);
  }

  Folder folder_;
  FaultyFiles files_;
  CheckpointFolder checkpoints_{files_, folder_.path("checkpoints")};
};

/// Saved under one placement with updates pending, resumed under others.
TEST_P(Checkpoint, GoesOnExactlyUnderAnyPlacement) {
  const Place wide(small(GetParam()), false);
  const auto whole = wide.session(true);
  const double loss = train(*whole, 0, 5);

  SessionConfig other = small(GetParam());
  other.policy = "static:w=0.3,o=0.2";
  other.chunk_bytes = 24 << 10;
  other.threads = 2;
  other.recompute = 1;
  files_.make_folder(folder_.path("drive"));
  const Place places[] = {Place(small(GetParam()), true), Place(other, true),
                          Place(small(GetParam()), true, {{folder_.path("drive")}, "auto"})};
  for (const Place& from : places) {
    const auto first = from.session(true);
    train(*first, 0, 3);
    const auto entry = save(from, *first, 3);
    EXPECT_EQ(first->state_hash(), [&] {
      const auto copy = wide.session(false);
      load(wide, *copy, entry.path);
      return copy->state_hash();
    }());
    // Saving changes nothing of the run itself.
    EXPECT_EQ(train(*first, 3, 5), loss);
    for (const Place& to : places) {
      const auto second = to.session(false);
      load(to, *second, entry.path);
      EXPECT_EQ(train(*second, 3, 5), loss);
      EXPECT_EQ(second->state_hash(), whole->state_hash());
    }
    files_.remove(entry.path);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Checkpoint, ::testing::Values(DType::f32, DType::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

class CheckpointFaults : public Checkpoint {};
INSTANTIATE_TEST_SUITE_P(Types, CheckpointFaults, ::testing::Values(DType::f32),
                         [](const auto& i) { return std::string(name_of(i.param)); });

/// Every call that saving makes fails once: the checkpoint before stays, the run can go on and save
/// the next time.
TEST_P(CheckpointFaults, ASaveThatFailsLosesNothing) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const auto first = save(place, *session, 1);
  const uint64_t hash = session->state_hash();
  files_.calls = {};
  files_.remove(save(place, *session, 2).path);
  const auto counts = files_.calls;
  for (const FileCall call : {FileCall::write, FileCall::sync, FileCall::create, FileCall::rename,
                              FileCall::sync_folder}) {
    const uint64_t calls = counts[static_cast<size_t>(call)];
    ASSERT_GT(calls, 0u);
    for (uint64_t nth = 1; nth <= calls; nth += std::max<uint64_t>(1, calls / 12)) {
      files_.faults = {{call,
                        FileFault::Kind::error,
                        nth % 2 != 0 ? ENOSPC : EIO,
                        "checkpoints",
                        nth,
                        false,
                        {}}};
      const std::string message = message_of([&] { save(place, *session, 2); });
      EXPECT_NE(message.find(folder_.path("checkpoints")), std::string::npos) << message;
      EXPECT_NE(message.find(nth % 2 != 0 ? "No space left" : "Input/output"), std::string::npos)
          << message;
      files_.faults.clear();
      EXPECT_EQ(checkpoints_.list().front().step, 1u);
      // One that is there is whole.
      for (const auto& e : checkpoints_.list()) {
        const auto copy = place.session(false);
        load(place, *copy, e.path);
        EXPECT_EQ(copy->state_hash(), hash);
        if (e.step == 2) files_.remove(e.path);
      }
      checkpoints_.remove_partial();
    }
  }
}

TEST_P(CheckpointFaults, ShortAndInterruptedTransfersGoOn) {
  const Place place(small(), true);
  const auto session = place.session(true);
  using Kind = FileFault::Kind;
  files_.faults = {{FileCall::write, Kind::error, EAGAIN, "model", 3, false, {}},
                   {FileCall::write, Kind::cut, 0, "safetensors", 2, true, {}},
                   {FileCall::read, Kind::error, EAGAIN, "model", 3, false, {}},
                   {FileCall::read, Kind::cut, 0, "safetensors", 5, true, {}}};
  const auto entry = save(place, *session, 1);
  const auto copy = place.session(false);
  load(place, *copy, entry.path);
  EXPECT_EQ(copy->state_hash(), session->state_hash());
  for (const FileFault& f : files_.faults) EXPECT_GT(f.fired, 0u);
}

TEST_P(CheckpointFaults, ABitThatFlipsIsFound) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const auto flip = [&](FileCall call, const char* file, uint64_t nth) {
    files_.faults = {{call, FileFault::Kind::flip_bit, 0, file, nth, false, {}}};
  };
  const auto good = save(place, *session, 1);
  flip(FileCall::write, "model", 4);  // the third tensor
  const auto bad = save(place, *session, 2);
  const auto load_from = [&](const std::string& path) {
    return message_of([&] { load(place, *place.session(false), path); });
  };
  const std::string written = load_from(bad.path);
  EXPECT_NE(written.find("model.safetensors does not hold what was saved"), std::string::npos);
  EXPECT_NE(written.find("(weight of h.0.ln_1.weight)"), std::string::npos) << written;
  files_.faults.clear();
  EXPECT_EQ(load_from(good.path), "no error");
  flip(FileCall::read, "optimizer", 4);  // after its header, read twice
  EXPECT_NE(load_from(good.path).find("optimizer.safetensors does not hold what was saved"),
            std::string::npos);
  flip(FileCall::read, "manifest", 1);
  EXPECT_NE(load_from(good.path).find("is not a usable manifest"), std::string::npos);
}

TEST_P(CheckpointFaults, WhatCannotBeReadIsNamed) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const auto entry = save(place, *session, 1);
  files_.faults = {{FileCall::read, FileFault::Kind::error, EIO, "optimizer", 4, true, {}}};
  const std::string message = message_of([&] { load(place, *place.session(false), entry.path); });
  EXPECT_NE(message.find("optimizer.safetensors (m of "), std::string::npos) << message;
  EXPECT_NE(message.find("at offset"), std::string::npos) << message;
  files_.faults.clear();

  std::filesystem::resize_file(entry.path + "/model.safetensors", 1000);
  EXPECT_NE(message_of([&] {
              open_checkpoint(files_, entry.path);
            }).find("model.safetensors has 1000 bytes where its manifest says"),
            std::string::npos);
  files_.remove(entry.path + "/model.safetensors");
  EXPECT_NE(message_of([&] { open_checkpoint(files_, entry.path); }).find("cannot open"),
            std::string::npos);
}

TEST_P(CheckpointFaults, ARenamedTensorIsFound) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const std::string model = save(place, *session, 1).path + "/model.safetensors";
  const auto opened = [&] {
    return message_of([&] { open_checkpoint(files_, std::filesystem::path(model).parent_path()); });
  };
  EXPECT_EQ(opened(), "no error");
  std::fstream file(model, std::ios::in | std::ios::out | std::ios::binary);
  std::string start(4096, ' ');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  file.clear();
  const size_t name = start.find("ln_1.weight");
  ASSERT_NE(name, std::string::npos);
  file.seekp(static_cast<std::streamoff>(name));
  file << "ln_9";
  file.close();
  EXPECT_NE(opened().find("model.safetensors has another header than was saved"),
            std::string::npos);
}

TEST_P(CheckpointFaults, RoomIsCheckedFirst) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const auto before = save(place, *session, 1);
  files_.calls = {};
  files_.free = 100'000;
  const std::string message = message_of([&] { save(place, *session, 2); });
  EXPECT_NE(message.find("and 100000 are free; nothing was written"), std::string::npos) << message;
  EXPECT_EQ(files_.calls[static_cast<size_t>(FileCall::write)], 0u);
  ASSERT_EQ(checkpoints_.list().size(), 1u);
  EXPECT_EQ(files_.list(checkpoints_.path()).size(), 2u) << "nothing half-written";
}

TEST_P(CheckpointFaults, OfAnotherModelIsRefused) {
  const Place place(small(), true);
  const auto session = place.session(true);
  const auto entry = save(place, *session, 1);
  const auto load_as = [&](const char* model, DType dtype) {
    SessionConfig c = small(dtype);
    c.model = model;
    const Place other(c, true);
    return message_of([&] { load(other, *other.session(false), entry.path); });
  };
  const std::string deeper = load_as("gpt2:L4,D48,H3,V96,T16", DType::f32);
  EXPECT_NE(
      deeper.find("is of the model gpt2:L3,D48,H3,V96,T16, not gpt2:L4,D48,H3,V96,T16: it has "
                  "no weight of h.3.ln_1.weight"),
      std::string::npos)
      << deeper;
  const std::string wider = load_as("gpt2:L3,D96,H3,V96,T16", DType::f32);
  EXPECT_NE(wider.find("weight of wte.weight has shape [96, 48] and type F32, where [96, 96]"),
            std::string::npos)
      << wider;
  EXPECT_NE(
      load_as("gpt2:L3,D48,H3,V96,T16", DType::bf16).find("type F32, where [96, 48] and BF16"),
      std::string::npos);
}

}  // namespace
}  // namespace strata
