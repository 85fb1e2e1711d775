#include <filesystem>

#include "tests/folder.hpp"
#include "tests/train/data_samples.hpp"
#include "train/data_files.hpp"
#include "train/data_text.hpp"

namespace strata {
namespace {

namespace fs = std::filesystem;

class Data : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    return folder_.write(name, text);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

  std::vector<std::string> names(const std::vector<std::string>& arguments) const {
    std::vector<std::string> out;
    for (const auto& file : resolve_data_files(arguments)) {
      out.push_back(fs::relative(file, folder_.path()).string());
    }
    return out;
  }

  Folder folder_;
};

using Names = std::vector<std::string>;

std::string config_error(const std::function<void()>& f) { return error_of<ConfigError>(f); }

TEST_F(Data, ResolvesFilesPatternsAndDirectoriesInOrder) {
  for (const char* name : {"b.txt", "a.txt", "B.txt", "c.md", "sub/z.txt", "[x].txt"}) {
    write(name, "text");
  }
  EXPECT_EQ(names({path("c.md"), path("b.txt")}), (Names{"c.md", "b.txt"}));
  EXPECT_EQ(names({folder_.path()}), (Names{"B.txt", "[x].txt", "a.txt", "b.txt"}));
  EXPECT_EQ(names({path("?.txt"), path("sub")}), (Names{"B.txt", "a.txt", "b.txt", "sub/z.txt"}));
  EXPECT_EQ(names({path("[x].txt")}), (Names{"[x].txt"})) << "an existing file is not a pattern";
  EXPECT_EQ(names({path("s*")}), (Names{"sub/z.txt"})) << "a directory that a pattern matches";
}

TEST_F(Data, ADirectoryWithoutTextStandsForItsShards) {
  for (const char* name : {"s/b.bin", "s/a.bin", "s/c.md", "t/a.bin", "t/a.txt"}) write(name, "x");
  EXPECT_EQ(names({path("s")}), (Names{"s/a.bin", "s/b.bin"}));
  EXPECT_EQ(names({path("t")}), (Names{"t/a.txt"}));
  EXPECT_EQ(names({path("s/*.bin"), path("t/a.bin")}), (Names{"s/a.bin", "s/b.bin", "t/a.bin"}));
}

TEST_F(Data, TextAndShardsAreToldApart) {
  EXPECT_TRUE(are_shards(Names{"a/b.bin", "c.bin"}));
  EXPECT_FALSE(are_shards(Names{"a.bin/b.txt", "bin", "c.bin.md"}));
  for (const Names& mixed : {Names{"a.txt", "b", "c.bin"}, Names{"c.bin", "a.txt"}}) {
    const std::string message = config_error([&] { are_shards(mixed); });
    EXPECT_CONTAINS(message, "'a.txt' is text but 'c.bin' is a token shard");
  }
}

TEST_F(Data, NamesWhatDoesNotResolve) {
  write("a.txt", "text");
  fs::create_directories(path("empty"));
  fs::create_symlink(path("a.txt"), path("link.txt"));
  const auto message = [](const Names& arguments) {
    return config_error([&] { resolve_data_files(arguments); });
  };
  EXPECT_CONTAINS(message({path("none.txt")}), "no file '" + path("none.txt"));
  EXPECT_CONTAINS(message({path("a.txt/b")}), "no file '");
  EXPECT_CONTAINS(message({path("*.md")}), "no file matches '" + path("*.md"));
  EXPECT_CONTAINS(message({path("empty")}), "no *.txt and no *.bin");
  EXPECT_CONTAINS(message({"/dev/null"}), "not a regular file");
  EXPECT_CONTAINS(message({path("a.txt"), path("link.txt")}), "twice");
  EXPECT_CONTAINS(message({""}), "empty");
  EXPECT_CONTAINS(message({}), "no text");
}

TEST_F(Data, BatchesAreWindowsOfTheTextWithShiftedTargets) {
  const std::string text = ramp();
  const Names paths = {write("1", text.substr(0, 120)), write("2", text.substr(120))};
  TextData data(paths, 8, 5, 256);
  EXPECT_EQ(data.train_tokens(), 270u);
  EXPECT_EQ(data.validation_tokens(), 30u);
  const auto check = [&](uint64_t start, const int32_t* tokens, const int32_t* targets) {
    for (uint64_t t = 0; t < 8; ++t) {
      ASSERT_EQ(tokens[t], text[start + t]);
      ASSERT_EQ(targets[t], text[start + t + 1]);
    }
  };
  std::vector<int32_t> tokens(8 * 50), targets(8 * 50);
  data.train_batch(100, 50, tokens.data(), targets.data());
  for (uint64_t i = 0; i < 50; ++i) {
    check(data.sampler().train_start(100 + i), &tokens[8 * i], &targets[8 * i]);
  }
  data.validation_batch(1, 2, tokens.data(), targets.data());
  check(278, &tokens[0], &targets[0]);
  check(286, &tokens[8], &targets[8]);
}

TEST_F(Data, SamplesDoNotDependOnTheBatchSize) {
  const Names paths = {write("1", ramp())};
  TextData data(paths, 8, 5, 256);
  std::vector<int32_t> whole(8 * 12), parts(8 * 12), targets(8 * 12);
  data.train_batch(0, 12, whole.data(), targets.data());
  for (uint32_t micro = 0; micro < 4; ++micro) {
    data.train_batch(3 * micro, 3, &parts[8 * 3 * micro], &targets[8 * 3 * micro]);
  }
  EXPECT_EQ(whole, parts);
}

TEST_F(Data, HashIsOfTheTextAlone) {
  const std::string text = ramp();
  const Names split = {write("1", text.substr(0, 120)), write("2", text.substr(120))};
  const Names whole = {write("3", text)};
  std::string changed = text;
  changed[299] ^= 1;
  const Names other = {write("4", changed)};
  EXPECT_EQ(TextData(split, 8, 5, 256).hash(), TextData(whole, 9, 6, 300).hash());
  EXPECT_NE(TextData(other, 8, 5, 256).hash(), TextData(whole, 8, 5, 256).hash());
}

TEST_F(Data, RefusesInvalidEmptyAndShortTexts) {
  const std::string good(70000, 'a');
  const auto message = [](const Names& arguments, uint32_t seq, uint64_t vocabulary = 256) {
    return config_error([&] { TextData(arguments, seq, 1, vocabulary); });
  };
  const Names invalid = {write("good", good), write("bad", good + "\xc3(")};
  EXPECT_CONTAINS(message(invalid, 8), "'" + path("bad") + "' is not UTF-8");
  EXPECT_CONTAINS(message(invalid, 8), "at byte 70000");
  // A character may not straddle two files, though the concatenation is valid.
  const Names straddling = {write("head", good + "\xc3"), write("tail", "\xa9" + good)};
  EXPECT_CONTAINS(message(straddling, 8), "'" + path("head") + "' is not UTF-8");
  EXPECT_CONTAINS(message({write("empty", "")}, 8), "is empty");
  EXPECT_CONTAINS(message({write("short", "some words")}, 8), "at least 90");
  EXPECT_CONTAINS(message({path("good")}, 8, 97), "vocabulary has 97");
}

}  // namespace
}  // namespace strata
