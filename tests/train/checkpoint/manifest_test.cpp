#include "train/checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include <random>

#include "runtime/errors.hpp"
#include "tests/mutate.hpp"

namespace strata {
namespace {

Manifest sample() {
  Manifest m;
  m.step = 120;
  m.tokens = 7680;
  m.model = "gpt2:L1,D32,H2,V96,T16";
  m.numerics_key = "model=x dtype=fp32 kernels=oneDNN 2.6,AVX3";
  m.flags = {{"--model", "gpt2"}, {"--data", "/a b"}, {"--data", "/c"}, {"--no-checkpoint", ""}};
  m.files = {{"model.safetensors", 1234, 99, 0xfedcba9876543210}};
  m.tensors = {{"wte.weight", "m", "model.safetensors", "m.wte.weight", 0, 3072, UINT64_MAX - 4}};
  return m;
}

std::string refused(const std::string& text) {
  try {
    parse_manifest(text, "here");
  } catch (const ConfigError& e) {
    std::string message = e.what();
    EXPECT_EQ(message.find("here is not a usable manifest: "), 0u) << message;
    return message;
  }
  return "taken";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = to_text(sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, WhatIsWrittenIsReadBack) {
  const Manifest m = sample(), back = parse_manifest(to_text(m), "here");
  EXPECT_EQ(back.step, m.step);
  EXPECT_EQ(back.tokens, m.tokens);
  EXPECT_EQ(back.model, m.model);
  EXPECT_EQ(back.numerics_key, m.numerics_key);
  EXPECT_EQ(back.flags, m.flags);
  ASSERT_EQ(back.files.size(), 1u);
  EXPECT_EQ(back.files[0].bytes, 1234u);
  EXPECT_EQ(back.files[0].header_bytes, 99u);
  EXPECT_EQ(back.files[0].header_hash, 0xfedcba9876543210u);
  const CheckpointTensor* const t = back.find("wte.weight", "m");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->key, "m.wte.weight");
  EXPECT_EQ(t->elems, 3072u);
  EXPECT_EQ(t->hash, UINT64_MAX - 4);
  EXPECT_EQ(back.find("wte.weight", "v"), nullptr);
  EXPECT_EQ(to_text(back), to_text(m));
}

TEST(Manifest, EachFaultHasItsMessage) {
  const auto has = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refused(""), "something else than an object");
  has(refused("{"), "something else than an object");
  has(refused("{}"), "has no 'format'");
  has(refused(replaced("\"format\": 2", "\"format\": 3")), "has format 3, and this version reads");
  has(refused(replaced("\"step\": 120", "\"step\": 121")), "its hash does not match");
  has(refused(replaced("\"step\": 120", "\"step\": -1")), "no whole number as 'step'");
  has(refused(replaced("\"tokens\"", "\"token\"")), "has no 'tokens'");
  has(refused(replaced("\"name\": \"model", "\"name\": \"../model")), "outside its folder");
  has(refused(replaced("\"file\": \"model", "\"file\": \"/model")), "outside its folder");
  has(refused(replaced("fffffffffffffffb", "fffffffffffffffg")), "has no hash as 'hash'");
  has(refused(replaced("\"elems\": 3072", "\"elems\": 3.5")), "no whole number as 'elems'");
  const std::string text = to_text(sample());
  has(refused(text.substr(0, text.size() / 2)), "something else than an object");
}

TEST(Manifest, AnyBytesAreTakenOrRefused) {
  const std::string good = to_text(sample());
  std::mt19937_64 random(12);
  for (uint64_t i = 0; i < fuzz_runs(); ++i) {
    const std::string text = mutate(good, random);
    try {
      // What passes the hash is what was written, but for blanks.
      EXPECT_EQ(to_text(parse_manifest(text, "here")), good) << text;
    } catch (const ConfigError&) {
    }
  }
}

TEST(Manifest, DifferencesOfKeysAreNamed) {
  EXPECT_EQ(describe_key_difference("a=1 b=x y c=3", "a=1 b=x y c=3"), "");
  EXPECT_EQ(describe_key_difference("a=1 b=x y c=3", "a=2 b=x z d=4"),
            "a: 1 there, 2 here; b: x y there, x z here; c: 3 there, none here; d: none there, 4 "
            "here");
}

}  // namespace
}  // namespace strata
