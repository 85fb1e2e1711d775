#include "train/checkpoint/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "runtime/errors.hpp"
#include "tests/mutate.hpp"
#include "tests/runtime/files/memory_files.hpp"

namespace strata {
namespace {

/// A file with this header and so many bytes after it.
std::string file_with(const std::string& json, size_t data) {
  const uint64_t size = json.size();
  std::string out(sizeof size, '\0');
  std::memcpy(out.data(), &size, sizeof size);
  return out + json + std::string(data, 'x');
}

SafeTensorsHeader read(const std::string& content) {
  MemoryFiles files;
  files.put("f", content);
  return read_safetensors_header(*files.open("f"));
}

std::string refused(const std::string& content) {
  try {
    read(content);
  } catch (const ConfigError& e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find("f is not a usable safetensors file: "), 0u) << message;
    return message;
  }
  return "taken";
}

TEST(SafeTensors, WhatIsWrittenIsReadBack) {
  std::vector<SafeTensor> tensors = {
      {"a.weight", "BF16", {3, 5}}, {"none", "F32", {0, 7}}, {"scalar", "U16", {}}};
  const std::string header = write_safetensors_header(tensors, {{"format", "pt"}});
  EXPECT_EQ(header.size() % 8, 0u);
  const SafeTensorsHeader h = read(header + std::string(32, 'x'));
  EXPECT_EQ(h.data_offset, header.size());
  EXPECT_EQ(h.metadata.at("format"), "pt");
  ASSERT_EQ(h.tensors.size(), 3u);
  for (const SafeTensor& t : tensors) {
    const SafeTensor* const back = h.find(t.name);
    ASSERT_NE(back, nullptr) << t.name;
    EXPECT_EQ(back->dtype, t.dtype);
    EXPECT_EQ(back->shape, t.shape);
    EXPECT_EQ(back->begin, t.begin);
    EXPECT_EQ(back->end, t.end);
  }
  EXPECT_EQ(h.find("b"), nullptr);
}

/// Of the format's own documentation: a file other programs write, in any order and spacing.
TEST(SafeTensors, OtherProgramsFilesAreRead) {
  const SafeTensorsHeader h = read(file_with(
      R"( {"b":{"shape":[2],"data_offsets":[4,12],"dtype":"F32"},
          "a":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}   )",
      12));
  ASSERT_EQ(h.tensors.size(), 2u);
  EXPECT_EQ(h.tensors[0].name, "a");
  EXPECT_EQ(h.tensors[1].begin, 4u);
}

TEST(SafeTensors, EachFaultHasItsMessage) {
  const auto one = [](const std::string& fields, size_t data = 4) {
    return refused(file_with("{\"a\":{" + fields + "}}", data));
  };
  const std::string good = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  EXPECT_EQ(one(good), "taken");
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused("abc"), "it has 3 bytes");
  has(refused(std::string(8, '\xff')), "its header should have 18446744073709551615 bytes");
  has(refused(file_with("{}", 0).substr(0, 9)), "header should have 2 bytes, but 1 follow");
  has(refused(file_with("[1]", 0)), "its header is no JSON object");
  has(refused(file_with("{\"a\":", 0)), "its header is no JSON object");
  has(refused(file_with(std::string(100, '[') + std::string(100, ']'), 0)), "nested too deeply");
  has(refused(file_with(R"({"a":3})", 0)), "tensor 'a' is no object");
  has(refused(file_with(R"({"__metadata__":3})", 0)), "__metadata__ is no object");
  has(refused(file_with(R"({"__metadata__":{"a":3}})", 0)), "no text");
  has(one(R"("shape":[1],"data_offsets":[0,4])"), "has no dtype");
  has(one(R"("dtype":"F31","shape":[1],"data_offsets":[0,4])"), "unknown dtype 'F31'");
  has(one(R"("dtype":"F32","data_offsets":[0,4])"), "has no shape");
  has(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "no list of sizes");
  has(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), "no list of sizes");
  has(one(R"("dtype":"F32","shape":[1000000000,1000000000,1000],"data_offsets":[0,4])"),
      "too many elements");
  has(one(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), "has no data_offsets");
  has(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "has no data_offsets");
  has(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "has 4 bytes where");
  has(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8), "begins at byte 4");
  has(one(good, 3), "its tensors need 4 bytes after the header, but 3 are there");
  has(one(good, 5), "but 5 are there");
  has(refused(file_with(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                        R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                        3)),
      "tensor 'b' begins at byte 1");
}

/// Whatever the bytes are: taken, or refused with a message; a taken one covers its file.
TEST(SafeTensors, AnyBytesAreTakenOrRefused) {
  std::vector<SafeTensor> tensors = {{"w", "F32", {2, 3}}, {"m.w", "BF16", {6}}, {"r", "U16", {2}}};
  const std::string header = write_safetensors_header(tensors, {{"format", "pt"}, {"step", "7"}});
  const std::string good = header + std::string(40, 'x');
  std::mt19937_64 random(11);
  uint64_t taken = 0;
  for (uint64_t i = 0; i < fuzz_runs(); ++i) {
    const std::string content = mutate(good, random);
    try {
      const SafeTensorsHeader h = read(content);
      ++taken;
      uint64_t bytes = h.data_offset;
      for (const SafeTensor& t : h.tensors) bytes += t.bytes();
      ASSERT_EQ(bytes, content.size());
    } catch (const ConfigError&) {
    } catch (const IoError&) {
    }
  }
  EXPECT_GT(taken, 0u);
  EXPECT_LT(taken, fuzz_runs());
}

}  // namespace
}  // namespace strata
