// What the training data does when reads go wrong, text and shards alike.
#include "tests/runtime/files/faulty_files.hpp"
#include "tests/runtime/files/memory_files.hpp"
#include "tests/train/data_samples.hpp"
#include "tests/train/shard_files.hpp"
#include "train/data_shards.hpp"
#include "train/data_text.hpp"

namespace strata {
namespace {

using Kind = FileFault::Kind;

constexpr uint32_t kSeq = 100;
constexpr size_t kBlock = DataStream::kBlock;

/// Two files of about three blocks, as text or as shards.
class DataFaults : public ::testing::TestWithParam<const char*> {
 protected:
  DataFaults() {
    for (const std::string& name : names_) {
      const auto bytes = token_ramp(3 * kBlock - 1000, 128);
      memory_.put(name, shards() ? shard(token_ramp(3 * kBlock / 2 - 1000, 50257), 2)
                                 : std::string(bytes.begin(), bytes.end()));
    }
  }
  bool shards() const { return GetParam() == std::string("shards"); }
  std::string what() const { return shards() ? "training tokens" : "training text"; }

  std::unique_ptr<TokenSource> open() {
    if (shards()) return std::make_unique<ShardData>(names_, kSeq, 5, 1 << 16, files_);
    return std::make_unique<TextData>(names_, kSeq, 5, 256, files_);
  }
  /// All of the data is read for these, and some of it twice.
  std::vector<int32_t> windows(TokenSource& data) const {
    std::vector<int32_t> tokens(kSeq * 2000), targets(kSeq * 2000);
    data.train_batch(0, 1000, tokens.data(), targets.data());
    data.validation_batch(0, 1000, &tokens[kSeq * 1000], &targets[kSeq * 1000]);
    tokens.insert(tokens.end(), targets.begin(), targets.end());
    return tokens;
  }

  MemoryFiles memory_;
  FaultyFiles files_{memory_};
  const std::vector<std::string> names_ = {"first", "second"};
};

TEST_P(DataFaults, AFailedReadNamesFileOffsetAndOwner) {
  files_.faults = {{FileCall::read, Kind::error, EIO, "second", 3, false, {}}};
  const auto offset = std::to_string((shards() ? 1 : 2) * kBlock);  // a shard's header is read too
  EXPECT_CONTAINS(error_of<IoError>([&] { open(); }),
                  " bytes at offset " + offset + " of second (" + what() + "): Input/output error");
  files_.faults.clear();
  const auto data = open();
  files_.faults = {{FileCall::read, Kind::error, EIO, "second", 1, true, {}}};
  const std::string message = error_of<IoError>([&] { windows(*data); });
  EXPECT_CONTAINS(message, " of second (" + what() + "): Input/output error");
}

TEST_P(DataFaults, FilesThatDoNotOpenAreNamed) {
  files_.faults = {{FileCall::open, Kind::error, EMFILE, "second", 1, false, {}}};
  const std::string message = error_of<ConfigError>([&] { open(); });
  EXPECT_CONTAINS(message, "--data: cannot open second: Too many open files");
  EXPECT_CONTAINS(message, "ulimit -n");
}

TEST_P(DataFaults, ShortAndInterruptedReadsChangeNothing) {
  const auto whole = open();
  const std::vector<int32_t> expected = windows(*whole);
  files_.faults = {{FileCall::read, Kind::error, EAGAIN, "", 2, false, {}},
                   {FileCall::read, Kind::error, EINTR, "", 5, false, {}},
                   {FileCall::read, Kind::error, EAGAIN, "", 200, false, {}},
                   {FileCall::read, Kind::cut, 0, "", 1, true, {}}};
  const auto data = open();
  EXPECT_EQ(data->hash(), whole->hash());
  EXPECT_EQ(windows(*data), expected);
  for (const FileFault& f : files_.faults) EXPECT_GT(f.fired, 0u);
}

TEST_P(DataFaults, AFlippedBitIsNoticed) {
  const auto data = open();
  const std::vector<int32_t> expected = windows(*data);
  for (const std::string& name : names_) {
    for (uint64_t nth = 1; nth < 100; nth += 7) {
      files_.faults = {{FileCall::read, Kind::flip_bit, 0, name, nth, false, {}}};
      const std::string message = error_of<IoError>([&] { windows(*data); });
      EXPECT_CONTAINS(message, " of '" + name + "' changed since the start, or were read wrongly");
      EXPECT_CONTAINS(message, "do not change the " + what());
      bool named = false;
      for (size_t block = 0; block < 3; ++block) {
        const std::string place = "bytes at offset " + std::to_string(block * kBlock) + " of";
        named |= message.find(place) != std::string::npos;
      }
      EXPECT_TRUE(named) << message;
    }
  }
  files_.faults.clear();
  EXPECT_EQ(windows(*data), expected) << "the next read is right again";
}

TEST_P(DataFaults, ABitFlippedAtTheStartIsNoticedLater) {
  files_.faults = {{FileCall::read, Kind::flip_bit, 0, "second", 3, false, {}}};
  const auto data = open();
  const auto offset = std::to_string((shards() ? 1 : 2) * kBlock);
  EXPECT_CONTAINS(error_of<IoError>([&] { windows(*data); }),
                  "bytes at offset " + offset + " of 'second' changed");
}

TEST_P(DataFaults, AFileCutShortDuringTheRunIsNamed) {
  const auto data = open();
  const std::string all = memory_.get("first");
  memory_.put("first", all.substr(0, 1500));
  const std::string message = error_of<IoError>([&] { windows(*data); });
  EXPECT_CONTAINS(message, "'first' ends at byte 1500 but had " + std::to_string(all.size()));
  EXPECT_CONTAINS(message, "do not change the " + what() + " during a run");
}

INSTANTIATE_TEST_SUITE_P(Sources, DataFaults, ::testing::Values("text", "shards"),
                         [](const auto& source) { return std::string(source.param); });

}  // namespace
}  // namespace strata
